#!/usr/bin/env bash
# Prove that `python3 dev.py COMMAND` works on a bare Debian, as root and as a normal user.
#
#   sudo tools/bare_chroot.sh DIRECTORY [--without-pip] [--as root|newcomer] [COMMAND…]
#
# COMMAND is `test` unless given; without --as it runs as both, root first.
# DIRECTORY becomes the chroot, or is used again if it is one. It needs debootstrap (apt-get install debootstrap).
# The mirror, the certificates, the name server and the pip settings are this machine's own.
set -euo pipefail

die() { echo "bare_chroot: $*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || die "needs root"
command -v debootstrap >/dev/null || die "needs debootstrap: apt-get install debootstrap"
[ $# -ge 1 ] || die "usage: tools/bare_chroot.sh DIRECTORY [--without-pip] [--as root|newcomer] [COMMAND…]"

repository=$(cd "$(dirname "$0")/.." && pwd)
chroot=$(realpath -m "$1")
shift
packages=python3,python3-pip,ca-certificates
if [ "${1:-}" = --without-pip ]; then
    packages=python3,ca-certificates
    shift
fi
users=(root newcomer)
if [ "${1:-}" = --as ]; then
    case "${2:-}" in root | newcomer) users=("$2") ;; *) die "--as takes root or newcomer" ;; esac
    shift 2
fi
command=("${@:-test}")
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")

first_mirror() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
        sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb (\[[^]]*\] )?([^ ]+) .*/\2/p' | grep -E '/debian/?$' | head -n 1
}

if [ ! -e "$chroot/usr/bin/python3" ]; then
    debootstrap --variant=minbase --include="$packages" "$suite" "$chroot" "$(first_mirror)" >/dev/null
fi

for program in git make curl uv; do
    [ ! -e "$chroot/usr/bin/$program" ] || die "the chroot is not bare: it has $program"
done

cp /etc/resolv.conf /etc/hosts "$chroot/etc/"
[ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$chroot/etc/"
find /usr/local/share/ca-certificates -name '*.crt' -exec cp -t "$chroot/usr/local/share/ca-certificates" {} +
chroot "$chroot" update-ca-certificates >/dev/null 2>&1

# A machine has these three; a chroot must be given them.
unmount() { umount "$chroot/proc" "$chroot/dev/shm" "$chroot/dev/pts" 2>/dev/null || true; }
trap unmount EXIT
mkdir -p "$chroot/dev/shm" "$chroot/dev/pts"
mountpoint -q "$chroot/proc" || mount -t proc proc "$chroot/proc"
mountpoint -q "$chroot/dev/shm" || mount -t tmpfs tmpfs "$chroot/dev/shm"
mountpoint -q "$chroot/dev/pts" || mount -t devpts -o newinstance,ptmxmode=0666,gid=5,mode=620 devpts "$chroot/dev/pts"
ln -sf pts/ptmx "$chroot/dev/ptmx"

chroot "$chroot" id newcomer >/dev/null 2>&1 || chroot "$chroot" useradd --create-home newcomer

# What a clone would hold: no environment, no caches.
copy_repository() {
    rm -rf "${chroot:?}$1/holdfast"
    mkdir -p "$chroot$1/holdfast"
    git -C "$repository" ls-files -z --cached --others --exclude-standard |
        tar -C "$repository" -c --null --ignore-failed-read -T - | tar -C "$chroot$1/holdfast" -x --no-same-owner
    [ ! -e "$chroot$1/holdfast/.tools" ] || die "the copy is not bare: it has .tools"
}

registry_settings() { env | grep -E '^(PIP_|UV_|SSL_CERT_|REQUESTS_CA_BUNDLE=|[A-Za-z]+_(proxy|PROXY)=)' || true; }

run_as() {
    local user=$1 home=$2
    copy_repository "$home"
    chroot "$chroot" chown -R "$user:" "$home/holdfast"
    mapfile -t settings < <(registry_settings)
    echo "== as $user: python3 dev.py ${command[*]}"
    chroot "$chroot" setpriv --reuid="$user" --regid="$user" --init-groups env -i \
        HOME="$home" PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 "${settings[@]}" \
        sh -c 'cd "$HOME/holdfast" && exec python3 dev.py "$@"' sh "${command[@]}"
}

# Root first: where pip is missing, only root can install it.
for user in "${users[@]}"; do
    run_as "$user" "$(chroot "$chroot" getent passwd "$user" | cut -d: -f6)"
done
echo "== passed; remove the chroot with: rm -rf --one-file-system $chroot"
