package secret

// This file knows secrets by their look, wherever in a text they stand.

import (
	"regexp"
	"strings"
)

// patterns hides what looks like a secret in s. Each pattern is tried only
// where a word that it cannot match without is there: nearly all command lines
// have none of them, and searching for a word is a hundred times faster.
func patterns(s string) string {
	for _, shape := range shapes {
		if strings.Contains(s, shape.word) {
			s = shape.pattern.ReplaceAllString(s, Mark)
		}
	}
	if strings.Contains(s, "://") && strings.Contains(s, "@") {
		s = userinfo.ReplaceAllStringFunc(s, hideUserinfo)
	}
	if !mayTell(s) {
		return s
	}
	lower := strings.ToLower(s)
	if strings.Contains(lower, "authorization") {
		s = headers.ReplaceAllString(s, "${1}"+Mark)
	}
	if strings.Contains(lower, "cookie:") {
		s = cookies.ReplaceAllString(s, "${1}"+Mark)
	}
	if strings.Contains(lower, "bearer") {
		s = bearer.ReplaceAllString(s, "${1}"+Mark)
	}
	return hideAssignments(s)
}

// shapes are keys and tokens that their issuers made recognisable, each with a
// word that all of its kind have.
var shapes = func() []shape {
	var all []shape
	for word, pattern := range map[string]string{
		"-----BEGIN ":     `-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|$)`,
		"AKIA":            `\bAKIA[A-Z0-9]{16}\b`, // AWS
		"ASIA":            `\bASIA[A-Z0-9]{16}\b`,
		"ghp_":            `\bghp_[A-Za-z0-9]{20,}`, // GitHub
		"gho_":            `\bgho_[A-Za-z0-9]{20,}`,
		"ghu_":            `\bghu_[A-Za-z0-9]{20,}`,
		"ghs_":            `\bghs_[A-Za-z0-9]{20,}`,
		"ghr_":            `\bghr_[A-Za-z0-9]{20,}`,
		"github_pat_":     `\bgithub_pat_[A-Za-z0-9_]{20,}`,
		"glpat-":          `\bglpat-[A-Za-z0-9_-]{16,}`,   // GitLab
		"xox":             `\bxox[a-z]-[A-Za-z0-9-]{10,}`, // Slack
		"xapp-":           `\bxapp-[A-Za-z0-9-]{10,}`,
		"hooks.slack.com": `hooks\.slack\.com/services/[A-Za-z0-9/_-]+`,
		"k_live_":         `\b[sr]k_live_[A-Za-z0-9]{10,}`, // Stripe
		"k_test_":         `\b[sr]k_test_[A-Za-z0-9]{10,}`,
		"sk-":             `\bsk-[A-Za-z0-9_-]{20,}`,  // model providers
		"AIza":            `\bAIza[0-9A-Za-z_-]{30,}`, // Google
		"ya29.":           `\bya29\.[0-9A-Za-z_-]{20,}`,
		"npm_":            `\bnpm_[A-Za-z0-9]{30,}`, // registries
		"pypi-":           `\bpypi-[A-Za-z0-9_-]{30,}`,
		"hf_":             `\bhf_[A-Za-z]{30,}`,
		"dop_v1_":         `\bdop_v1_[a-f0-9]{30,}`,            // DigitalOcean
		"SG.":             `\bSG\.[\w-]{16,}\.[\w-]{16,}`,      // SendGrid
		"hvs.":            `\bhvs\.[\w-]{20,}`,                 // Vault
		"eyJ":             `\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*`, // JSON web tokens
	} {
		all = append(all, shape{word, regexp.MustCompile(pattern)})
	}
	return all
}()

type shape struct {
	word    string
	pattern *regexp.Regexp
}

var (
	headers = regexp.MustCompile(`(?i)(\b(?:proxy-)?authorization\s*[:=]\s*["']?(?:(?:bearer|basic|token|digest|negotiate|apikey)\s+)?)[^\s"',]+`)
	cookies = regexp.MustCompile(`(?i)(\b(?:set-)?cookie:\s*)[^"']+`)
	bearer  = regexp.MustCompile(`(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}`)
	// userinfo is greedy, so that a password may hold @ and /.
	userinfo = regexp.MustCompile(`://[^\s"'/@]*(?::[^\s"']*)?@`)
	address  = regexp.MustCompile(`^://[^/:]*:\d{1,5}/`)
)

// hideUserinfo hides the password of a URL, or a user that is long enough to
// be a token.
func hideUserinfo(s string) string {
	if address.MatchString(s) {
		return s // a port and an @ further on in the path
	}
	user, _, found := strings.Cut(s[len("://"):len(s)-1], ":")
	switch {
	case found:
		return "://" + user + ":" + Mark + "@"
	case len(user) >= 20:
		return "://" + Mark + "@"
	}
	return s
}

// hideAssignments hides the values behind telling names, as in connection
// strings, URL parameters and JSON: a name, "=" or ":" with a quote or two
// spaces around it, and a value.
func hideAssignments(s string) string {
	var b strings.Builder
	done := 0
	for at := range len(s) {
		if s[at] != '=' && s[at] != ':' || at < done {
			continue
		}
		name := nameBefore(s[done:at])
		if strings.EqualFold(name, "authorization") || !isSecretName(name) {
			continue // no name, or a header, hidden already
		}
		begin, end := valueAfter(s, at+1)
		value := s[begin:end]
		if strings.HasPrefix(value, Mark) || !hides(name, value) {
			continue
		}
		b.WriteString(s[done:begin])
		b.WriteString(Mark)
		done = end
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// longestGap is how many spaces may stand on either side of an assignment.
const longestGap = 2

// nameBefore returns the name at the end of s, which may be quoted.
func nameBefore(s string) string {
	s = trimGap(s)
	s = strings.TrimRight(s, `"'`)
	begin := len(s)
	for begin > 0 && isNamePart(s[begin-1]) {
		begin--
	}
	return s[begin:]
}

func trimGap(s string) string {
	for range longestGap {
		s = strings.TrimSuffix(s, " ")
	}
	return s
}

func isNamePart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}

// valueAfter returns where the value from that place on begins and ends.
func valueAfter(s string, from int) (begin, end int) {
	for n := 0; n < longestGap && from < len(s) && s[from] == ' '; n++ {
		from++
	}
	if from < len(s) && (s[from] == '"' || s[from] == '\'') {
		from++
	}
	if n := strings.IndexAny(s[from:], " \t\r\n\"'&;,(){}"); n >= 0 {
		return from, from + n
	}
	return from, len(s)
}
