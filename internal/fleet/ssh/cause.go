package ssh

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// Cause is the likely reason why ssh failed.
type Cause string

// The causes that are told apart.
const (
	UnknownHostKey  Cause = "unknown host key"
	ChangedHostKey  Cause = "changed host key"
	Denied          Cause = "permission denied"
	NoRoute         Cause = "no route"
	NameUnknown     Cause = "name unknown"
	Refused         Cause = "connection refused"
	TimedOut        Cause = "timed out"
	Lost            Cause = "connection lost"
	CommandNotFound Cause = "command not found"
	NoClient        Cause = "no ssh client"
	BadConfig       Cause = "bad configuration"
	ForwardRefused  Cause = "forwarding refused"
	TooOld          Cause = "too old"
	Silent          Cause = "no answer" // ssh has not ended, and nothing came
	Ended           Cause = "ended"
)

// Error is a failed ssh: the likely cause, what to do, and what ssh itself said.
type Error struct {
	Host   string
	Cause  Cause
	Text   string // standard error of ssh, bounded, without blanks around it
	Status int    // exit status, -1 if killed by a signal
}

// Error names the cause, what to do next, and ssh's own words.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Cause))
	if next := e.Next(); next != "" {
		b.WriteString(": " + next)
	}
	if e.Text != "" {
		said := " (ssh said: "
		if e.Cause == Silent {
			said = " (it said: "
		}
		b.WriteString(said + oneLine(e.Text) + ")")
	}
	return b.String()
}

// Next is what a person can do about it, "" if there is nothing to say.
func (e *Error) Next() string {
	switch e.Cause {
	case UnknownHostKey:
		return "this machine has never accepted the key of " + e.Host + "; run `ssh " + e.Host + "` once, compare the fingerprint and accept it"
	case ChangedHostKey:
		return "the key of " + e.Host + " is not the one in known_hosts: the host was reinstalled, or somebody stands in between; check, then " + e.removal() + " and `ssh " + e.Host + "`"
	case Denied:
		return e.Host + " accepts no key that ssh offers without a prompt; add the public key there (`ssh-copy-id " + e.Host + "`), load it into the agent (`ssh-add`), and check User and IdentityFile in ~/.ssh/config"
	case NoRoute:
		return "no network path to " + e.Host + "; check the network, the VPN and ProxyJump"
	case NameUnknown:
		return "no such name; check the spelling, DNS, or add a Host entry with HostName to ~/.ssh/config"
	case Refused:
		return "nothing listens there; check that sshd runs on " + e.Host + ", and the Port in ~/.ssh/config"
	case TimedOut:
		return e.Host + " does not answer; it is down, or a firewall drops the packets"
	case Lost:
		return "the connection to " + e.Host + " broke"
	case CommandNotFound:
		return "topside is not installed on " + e.Host + "; run `topside hosts install " + e.Host + "`"
	case NoClient:
		return "install OpenSSH's client"
	case BadConfig:
		return "ssh does not accept its configuration; run `ssh -G " + e.Host + "`"
	case TooOld:
		return "topside on " + e.Host + " has no relay; run `topside hosts install " + e.Host + "`"
	case Silent:
		return "nothing came from topside on " + e.Host + " in time: the host or the way there is slow, or a start-up file of the shell waits; `ssh " + e.Host + " topside version` shows which"
	case Ended:
		if e.Text == "" {
			return fmt.Sprintf("what ssh started on %s ended with status %d and without a word; `ssh %s topside version` tells whether it is topside", e.Host, e.Status, e.Host)
		}
	case ForwardRefused:
		return "sshd on " + e.Host + " does not forward sockets (AllowStreamLocalForwarding), or the local socket could not be made"
	}
	return ""
}

// removal is the command that forgets the key of the host: ssh's own advice, which
// knows the file and the port, where it gives any.
func (e *Error) removal() string {
	if m := advice.FindStringSubmatch(e.Text); m != nil {
		return "`" + oneLine(m[1]) + "`"
	}
	return "`ssh-keygen -R " + e.Host + "`"
}

var (
	advice = regexp.MustCompile(`(?m)^\s*(ssh-keygen -f "[^"\n]*" -R "[^"\n]*")\s*$`)
	// refusedChannel is what ssh says of a channel that sshd did not open.
	refusedChannel = regexp.MustCompile(`channel \d+: open failed`)
	// alarm is what ssh says of a changed key beside what it found: the cause says it
	// in fewer words. So is that a socket is not there, as long as it is waited for.
	alarm = regexp.MustCompile(`(?m)^(@.*@?|IT IS POSSIBLE .*|Someone could be .*|It is also possible .*|Please contact .*|Add correct host key .*|channel \d+: open failed.*)$`)
)

func oneLine(s string) string {
	return strings.Join(strings.Fields(alarm.ReplaceAllString(s, "")), " ")
}

// signs are searched in order: the earlier say more than the later.
var signs = []struct {
	cause Cause
	text  *regexp.Regexp
}{
	{ChangedHostKey, regexp.MustCompile(`(?i)REMOTE HOST IDENTIFICATION HAS CHANGED|host key for .* has changed|REVOKED HOST KEY`)},
	{UnknownHostKey, regexp.MustCompile(`(?i)No .* host key is known for|Host key verification failed|authenticity of host`)},
	{Denied, regexp.MustCompile(`(?i)Permission denied \(|Too many authentication failures|Permission denied, please try again|No supported authentication methods`)},
	{NameUnknown, regexp.MustCompile(`(?i)Could not resolve hostname|Name or service not known|nodename nor servname`)},
	{NoRoute, regexp.MustCompile(`(?i)No route to host|Network is unreachable|Host is down`)},
	{Refused, regexp.MustCompile(`(?i)Connection refused`)},
	{TimedOut, regexp.MustCompile(`(?i)Connection timed out|Operation timed out|timed out during banner|Connection to .* timed out`)},
	{Lost, regexp.MustCompile(`(?i)Timeout, server .* not responding|Connection reset|Broken pipe|Connection closed by|closed by remote host|client_loop`)},
	{BadConfig, regexp.MustCompile(`(?i)Bad configuration option|Can't open user config file|terminating, .* bad configuration|Bad owner or permissions|unknown option|illegal option`)},
	{ForwardRefused, regexp.MustCompile(`(?i)forwarding failed|cannot listen to|forward.* request failed`)},
	{TooOld, regexp.MustCompile(`(?i)unknown command[^\n]*fleet-relay|no command[^\n]*fleet-relay`)},
	{CommandNotFound, regexp.MustCompile(`(?i)(topside|topup)[^\n]*(command )?not found|not found[^\n]*(topside|topup)|Unknown command[^\n]*(topside|topup)`)},
}

// classify finds the likely cause in what ssh said.
func classify(stderr string, status int) Cause {
	for _, s := range signs {
		if s.text.MatchString(stderr) {
			return s.cause
		}
	}
	switch status {
	case 127:
		return CommandNotFound
	case 255:
		return Lost
	}
	return Ended
}

// explain makes an *Error of how ssh ended.
func explain(name string, err error, stderr string) *Error {
	e := &Error{Host: name, Text: strings.TrimSpace(stderr)}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		e.Status = exit.ExitCode()
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		e.Status = -1
		e.Text = strings.TrimSpace(e.Text + "\n" + err.Error())
	}
	e.Cause = classify(stderr, e.Status)
	if e.Status == -1 && e.Cause == Ended {
		e.Cause = Lost
		if e.Text == "" {
			e.Text = "the ssh process was killed"
		}
	}
	return e
}
