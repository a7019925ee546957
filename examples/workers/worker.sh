#!/usr/bin/env bash
# A worker in bash and psql. A job of type T runs the program $HANDLERS/T: its arguments come as JSON on standard input,
# its output is JSON on standard output; any exit code but 0 is a failure, and standard error says why.
#
#   DATABASE_URL=postgresql://… HANDLERS=./handlers ./worker.sh
#
# It keeps the three rules of every worker: renew what you hold (that is also the heartbeat), pass the generation that the
# claim gave you with every call, and stop working on a job as soon as a call says that it is not yours any more.
set -uo pipefail

url=${DATABASE_URL:?where the jobs are}
handlers=${HANDLERS:?the directory with a program per job type}
schema=${HOLDFAST_SCHEMA:-holdfast} queues=${QUEUES:-default} pause=${RENEW_SECONDS:-5}
worker="$(hostname)-$$-$RANDOM$RANDOM"
scratch=$(mktemp -d)
stopping=

# sql STATEMENT NAME=VALUE…: psql quotes the values where the statement says :'NAME', so data stays data.
sql() {
    local statement=$1 settings=(--set=s="$schema" --set=worker="$worker")
    shift
    for pair; do settings+=(--set="$pair"); done
    psql -XAtq -F $'\t' -v ON_ERROR_STOP=1 "${settings[@]}" "$url" <<<"$statement" 2>>"$scratch/psql"
}

# While the handler runs: hold the job, and end the handler if somebody cancels it, if it is not ours any more, or if this
# worker has died.
keep() {
    while sleep "$pause" && kill -0 $$ 2>/dev/null; do
        [[ $(sql "SELECT :\"s\".renew(:'id', :'generation')" id="$1" generation="$2") == f ]] || break
    done
    kill "$3" 2>/dev/null
}

run() {
    local id=$1 generation=$2 type=$3 input=$4 code=127
    echo "no handler for $type here" >"$scratch/errors"
    : >"$scratch/output"
    if [[ $type =~ ^[A-Za-z0-9_]+$ && -x $handlers/$type ]]; then
        "$handlers/$type" <<<"$input" >"$scratch/output" 2>"$scratch/errors" &
        local handler=$! keeper
        keep "$id" "$generation" $handler & keeper=$!
        # A signal interrupts wait; the handler goes on.
        while wait $handler; code=$?; kill -0 $handler 2>/dev/null; do :; done
        kill $keeper 2>/dev/null
    fi
    [[ -s $scratch/output ]] || echo null >"$scratch/output"
    if [[ $code == 0 ]] && sql "\\set output \`cat '$scratch/output'\`
        SELECT :\"s\".complete(:'id', :'generation', :'output')" id="$id" generation="$generation" >/dev/null; then
        echo "completed $id"
    elif outcome=$(sql "\\set errors \`tail -c 2000 '$scratch/errors'\`
        SELECT :\"s\".fail(:'id', :'generation', :'errors', 'exit code ' || :'code')" \
        id="$id" generation="$generation" code="$code"); then
        echo "failed $id: $outcome"
    else
        echo "lost $id"
    fi
}

trap 'stopping=yes' TERM INT
trap 'sql "SELECT :\"s\".retire(:'"'worker'"')" >/dev/null; rm -rf "$scratch"' EXIT
echo "worker $worker"
until [[ $stopping ]]; do
    job=$(sql "SELECT id, lease_generation, type_name, input::jsonb
               FROM :\"s\".claim(:'worker', string_to_array(:'queues', ','), lease => '30 seconds')" queues="$queues")
    if [[ $job ]]; then
        IFS=$'\t' read -r id generation type input <<<"$job"
        run "$id" "$generation" "$type" "$input"
    else
        sleep "${POLL_SECONDS:-1}"
    fi
done
