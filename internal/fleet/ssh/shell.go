package ssh

import (
	"path"
	"strings"

	"topside/internal/fleet/frame"
)

// Quote makes one word of s for a POSIX shell.
func Quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%_+=:,./-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Shell makes a command line that any login shell (sh, fish, csh) hands on to sh
// unchanged. script must hold no line breaks, which csh does not quote, and no
// exclamation mark.
func Shell(script string) string { return "exec sh -c " + Quote(script) }

// searchPath adds where a user installs programs without root: a shell that is not
// interactive rarely has it.
const searchPath = `PATH="$PATH:$HOME/.local/bin:$HOME/bin:/usr/local/bin"; export PATH; `

// relayScript runs the relay of topside. Where only topup is installed it says so
// after the mark of a stream, with the user's home.
func relayScript(program, socket string) string {
	if program == "" {
		program = "topside"
	}
	run := Quote(program) + " fleet-relay"
	if socket != "" {
		run += " --socket " + Quote(socket)
	}
	return searchPath +
		`if command -v ` + Quote(program) + ` >/dev/null 2>&1; then exec ` + run + `; fi; ` +
		`if command -v topup >/dev/null 2>&1; then echo "` + frame.Mark + `none topup $HOME"; exit 0; fi; ` +
		`echo "` + program + `: command not found" >&2; exit 127`
}

// tunnelScript runs the original topup on socket until its own input ends, or topup
// does. Where the socket is served already, topup says so and ends, and the script
// only waits. The descriptor of the input is kept for the watcher: a shell gives
// background commands an empty one.
func tunnelScript(socket string) string {
	return searchPath +
		`mkdir -p ` + Quote(path.Dir(socket)) + ` && exec 3<&0; ` +
		`topup --socket ` + Quote(socket) + ` </dev/null >/dev/null 3<&- & p=$!; ` +
		`{ cat; kill $p; } <&3 >/dev/null 2>&1 & w=$!; ` +
		`trap "kill $p" HUP TERM INT; wait $p; s=$?; kill $w 2>/dev/null; ` +
		`if [ $s -eq 1 -o $s -eq 127 ] && [ -S ` + Quote(socket) + ` ]; then cat <&3 >/dev/null; s=0; fi; exit $s`
}
