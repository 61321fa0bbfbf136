package engine

import (
	"regexp"
	"slices"
	"strings"
)

// secret matches names of variables that hold credentials: code in a session has no use for the server's.
var secret = regexp.MustCompile(`(?i)(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL)`)

// ours are variables that speak to this process alone.
var ours = []string{"NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_PID", "WATCHDOG_USEC", "OCAMLRUNPARAM", "CAMLRUNPARAM"}

// CleanEnv returns the environment without the server's secrets and without the variables that would change how
// the driver runs. Later entries win, as in exec.
func CleanEnv(environ, added []string) []string {
	at := map[string]int{}
	var kept []string
	put := func(entry string) {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			return
		}
		if i, dup := at[name]; dup {
			kept[i] = entry
			return
		}
		at[name] = len(kept)
		kept = append(kept, entry)
	}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !secret.MatchString(name) && !slices.Contains(ours, name) {
			put(entry)
		}
	}
	for _, entry := range added {
		put(entry)
	}
	return kept
}
