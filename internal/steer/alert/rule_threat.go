package alert

// known_threat_pattern (R6): names and arguments of mining programs.

import (
	"fmt"
	"strings"
)

const ruleThreat = "known_threat_pattern"

var knownThreat = Rule{
	Name:       ruleThreat,
	Severities: []Severity{Critical, Info},
	Asks:       "Does a process bear the name of a known miner, or is it told to work for a mining pool?",
	Evidence:   "The whole name is one of a list of miners and malware families, or an argument is the address of a pool (stratum+tcp://, stratum+ssl://, a known pool's host) or an option that only miners have, given to a program that does not merely search or show text.",
	Silent:     "--threads alone says nothing. Searchers, pagers and editors may have such texts in their arguments, and so may shells, whose commands are judged when they run; of an interpreter only an argument that is the address of a pool counts. Names that ordinary programs share count only for a foreign executable. A miner that a package owns is Info: somebody installed it.",
	Limits:     "A renamed miner with a configuration file shows nothing here: see mining_behaviour. The lists age.",
	static:     judgeThreat,
}

func judgeThreat(s *subject) *Finding {
	name := strings.ToLower(s.comm())
	program := strings.ToLower(stem(s.executable()))
	switch {
	case minerNames[name], minerNames[program], ambiguousNames[name] && !s.origin.trusted() && s.origin != unreadable:
		f := s.say(ruleThreat, Critical, "process name matches known threat pattern: %s", s.comm()).
			because(fmt.Sprintf("%s is the name of a mining program or of malware that mines", s.comm()), s.origin.String(), s.lineage()).
			then("what it is connected to", "who wrote its executable", s.tree())
		if s.origin == packaged {
			f.Severity = Info
		}
		return f
	}
	if s.is(textTool | shell | builder | debugger | browser) {
		return nil
	}
	for _, a := range s.args()[min(1, len(s.args())):] {
		if s.is(interpreter) && (!strings.HasPrefix(a, "stratum") || strings.ContainsAny(a, " \n")) {
			continue // scripts have all kinds of arguments
		}
		if what := minerArgument(a); what != "" {
			return s.say(ruleThreat, Critical, "command line matches known threat pattern: %s", s.args()[0]).
				because(fmt.Sprintf("the argument %q is %s", cut(a, 80), what), s.origin.String(), s.lineage()).
				then("what it is connected to", s.tree())
		}
	}
	return nil
}

// minerArgument tells what one argument has to do with mining; "" for nothing.
func minerArgument(a string) string {
	lower := strings.ToLower(a)
	if _, value, ok := strings.Cut(lower, "="); ok && strings.HasPrefix(lower, "-") && !strings.HasPrefix(lower, "--donate-level") {
		lower = value
	}
	if lower == "--donate-level" || strings.HasPrefix(lower, "--donate-level=") || strings.HasPrefix(lower, "--max-cpu-usage") || lower == "--randomx-1gb-pages" {
		return "an option of mining programs"
	}
	if strings.HasPrefix(lower, "stratum+") || strings.HasPrefix(lower, "stratum://") || strings.HasPrefix(lower, "stratum1+") || strings.HasPrefix(lower, "stratum2+") {
		return "the address of a mining pool"
	}
	host := lower
	if _, rest, ok := strings.Cut(lower, "://"); ok {
		host = rest
	}
	host, _, _ = strings.Cut(host, "/")
	host, _, _ = strings.Cut(host, ":")
	if strings.ContainsAny(host, " \t\n'\"") {
		return ""
	}
	for _, pool := range poolHosts {
		if strings.Contains(host, pool) {
			return "the address of a mining pool"
		}
	}
	return ""
}

func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
