// Package install copies topside to another machine: it finds out what the machine
// is, sends the right static binary over ssh, checks it by hash over there, and puts
// it into ~/.local/bin in one step. It needs no root there, and nothing but a shell.
package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"topside/internal/fleet/ssh"
)

// Destination is where the program goes, from the home there.
const Destination = ".local/bin/topside"

// Platform is what a machine is, in Go's words.
type Platform struct{ OS, Arch string }

// Plan is what an installation would do; people are asked with it.
type Plan struct {
	Host string
	Platform
	Source    string // the binary here
	Size      int64
	SHA256    string
	Path      string // absolute, over there
	Installed string // SHA-256 of what is at Path now, "" if nothing is
	OnPath    bool   // a shell there that is not interactive finds ~/.local/bin by itself
}

// UpToDate reports whether the same binary is there already.
func (p Plan) UpToDate() bool { return p.Installed == p.SHA256 }

// UnsupportedError is a machine for which there is no binary.
type UnsupportedError struct{ Host, System, Machine string }

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("host %s is %s on %s, for which there is no binary of topside", e.Host, e.System, e.Machine)
}

// Runner runs a command on a host; ssh.Client is one.
type Runner interface {
	Run(ctx context.Context, host, command string, input io.Reader) (string, error)
}

// Binary finds the binary for a platform: the path of a file of this machine.
type Binary func(Platform) (string, error)

// sumScript sets $sum to the SHA-256 of the file in $f, by whatever is there.
const sumScript = `sum=$( { sha256sum "$f" || shasum -a 256 "$f" || openssl dgst -sha256 -r "$f"; } 2>/dev/null | cut -d" " -f1 | head -n1); `

const probeScript = `f="$HOME/` + Destination + `"; sum=; if [ -f "$f" ]; then ` + sumScript + ` fi; ` +
	`case ":$PATH:" in *":$HOME/.local/bin:"*) on=yes;; *) on=no;; esac; ` +
	`printf "topside-probe\n%s\n%s\n%s\n%s\n%s\n" "$(uname -s)" "$(uname -m)" "$HOME" "$sum" "$on"`

// Prepare looks at the host and chooses the binary.
func Prepare(ctx context.Context, run Runner, host string, binary Binary) (Plan, error) {
	p := Plan{Host: host}
	out, err := run.Run(ctx, host, ssh.Shell(probeScript), nil)
	if err != nil {
		return p, err
	}
	_, said, found := strings.Cut(out, "topside-probe\n")
	lines := strings.Split(said, "\n")
	if !found || len(lines) < 5 {
		return p, fmt.Errorf("host %s does not say what it is: %q", host, out)
	}
	if p.Platform, err = platformOf(host, lines[0], lines[1]); err != nil {
		return p, err
	}
	p.Path = lines[2] + "/" + Destination
	p.Installed, p.OnPath = lines[3], lines[4] == "yes"
	if p.Source, err = binary(p.Platform); err != nil {
		return p, err
	}
	p.SHA256, p.Size, err = sumFile(p.Source)
	return p, err
}

func platformOf(host, system, machine string) (Platform, error) {
	systems := map[string]string{"Linux": "linux", "Darwin": "darwin", "FreeBSD": "freebsd", "OpenBSD": "openbsd", "NetBSD": "netbsd"}
	machines := map[string]string{
		"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64",
		"i686": "386", "i386": "386", "armv7l": "arm", "armv6l": "arm", "riscv64": "riscv64", "ppc64le": "ppc64le", "s390x": "s390x",
	}
	p := Platform{systems[system], machines[machine]}
	if p.OS == "" || p.Arch == "" {
		return p, &UnsupportedError{host, system, machine}
	}
	return p, nil
}

func sumFile(path string) (string, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), n, nil
}

// Install does what the plan says. The file is written beside its destination,
// compared by hash, and renamed; on any failure nothing is left. A daemon that runs
// over there goes on with the program that it has, and ends when it is idle.
func Install(ctx context.Context, run Runner, p Plan) error {
	f, err := os.Open(p.Source)
	if err != nil {
		return err
	}
	defer f.Close()
	script := `umask 077; d="$HOME/.local/bin"; mkdir -p "$d" || exit 1; f="$d/.topside.$$.new"; ` +
		`trap "rm -f \"$f\"" EXIT; trap "exit 1" HUP INT TERM; ` +
		`cat > "$f" || exit 1; ` + sumScript +
		`if [ -z "$sum" ]; then echo "topside-no-hash"; exit 1; fi; ` +
		`[ "$sum" = "` + p.SHA256 + `" ] || { echo "topside-wrong-hash $sum"; exit 1; }; ` +
		`chmod 755 "$f" && said=$("$f" --version 2>/dev/null) || { echo "topside-does-not-run"; exit 1; }; ` +
		`case "$said" in "topside "*) ;; *) echo "topside-is-another"; exit 1;; esac; ` +
		`mv -f "$f" "$HOME/` + Destination + `" && echo topside-installed`
	out, err := run.Run(ctx, p.Host, ssh.Shell(script), f)
	switch {
	case strings.Contains(out, "topside-installed"):
		return nil
	case strings.Contains(out, "topside-no-hash"):
		return fmt.Errorf("host %s has neither sha256sum nor shasum nor openssl to check the copy with; nothing was installed", p.Host)
	case strings.Contains(out, "topside-wrong-hash"):
		return fmt.Errorf("the copy on host %s is damaged (SHA-256 is not %s); nothing was installed", p.Host, p.SHA256)
	case strings.Contains(out, "topside-does-not-run"):
		return fmt.Errorf("the program does not run on host %s (%s/%s; a home that is mounted noexec?); nothing was installed", p.Host, p.OS, p.Arch)
	case strings.Contains(out, "topside-is-another"):
		return fmt.Errorf("%s is not topside: it does not say so when it is asked for its version; nothing was installed", p.Source)
	case err != nil:
		var e *ssh.Error
		if errors.As(err, &e) && e.Cause == ssh.Ended {
			return fmt.Errorf("host %s could not store the program: %s", p.Host, e.Text)
		}
		return err
	}
	return fmt.Errorf("host %s does not say that the program was installed: %q", p.Host, out)
}
