package secret

// This file knows secrets by their look, wherever in a text they stand.

import (
	"regexp"
	"strings"
)

// patterns hides what looks like a secret in s.
func patterns(s string) string {
	for _, p := range shapes {
		s = p.ReplaceAllString(s, Mark)
	}
	s = headers.ReplaceAllString(s, "${1}"+Mark)
	s = cookies.ReplaceAllString(s, "${1}"+Mark)
	s = bearer.ReplaceAllString(s, "${1}"+Mark)
	s = userinfo.ReplaceAllStringFunc(s, hideUserinfo)
	return hideAssignments(s)
}

// shapes are keys and tokens that their issuers made recognisable.
var shapes = []*regexp.Regexp{
	regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|$)`),
	regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`),                                         // AWS
	regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}`),           // GitHub
	regexp.MustCompile(`\bgl(?:pat|dt|rt|cbt|ptt|soat)-[A-Za-z0-9_-]{16,}`),                     // GitLab
	regexp.MustCompile(`\bxox[a-z]-[A-Za-z0-9-]{10,}|\bxapp-[A-Za-z0-9-]{10,}`),                 // Slack
	regexp.MustCompile(`hooks\.slack\.com/services/[A-Za-z0-9/_-]+`),                            // Slack
	regexp.MustCompile(`\b[sr]k_(?:live|test)_[A-Za-z0-9]{10,}`),                                // Stripe
	regexp.MustCompile(`\bsk-[A-Za-z0-9_-]{20,}`),                                               // model providers
	regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{30,}|\bya29\.[0-9A-Za-z_-]{20,}`),                   // Google
	regexp.MustCompile(`\bnpm_[A-Za-z0-9]{30,}|\bpypi-[A-Za-z0-9_-]{30,}|\bhf_[A-Za-z]{30,}`),   // package and model registries
	regexp.MustCompile(`\bdop_v1_[a-f0-9]{30,}|\bSG\.[\w-]{16,}\.[\w-]{16,}|\bhvs\.[\w-]{20,}`), // DigitalOcean, SendGrid, Vault
	regexp.MustCompile(`\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*`),                                     // JSON web tokens
}

var (
	headers = regexp.MustCompile(`(?i)(\b(?:proxy-)?authorization\s*[:=]\s*["']?(?:(?:bearer|basic|token|digest|negotiate|apikey)\s+)?)[^\s"',]+`)
	cookies = regexp.MustCompile(`(?i)(\b(?:set-)?cookie:\s*)[^"']+`)
	bearer  = regexp.MustCompile(`(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}`)
	// userinfo is greedy, so that a password may hold @ and /.
	userinfo = regexp.MustCompile(`://[^\s"'/@]*(?::[^\s"']*)?@`)
	address  = regexp.MustCompile(`^://[^/:]*:\d{1,5}/`)
	// assignee is a name and what stands between it and its value.
	assignee = regexp.MustCompile(`([A-Za-z0-9_.-]+)["']?\s{0,2}[=:]\s{0,2}["']?`)
	valueEnd = regexp.MustCompile(`[\s"'&;,(){}]|$`)
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
// strings, URL parameters and JSON.
func hideAssignments(s string) string {
	var b strings.Builder
	done := 0
	for _, m := range assignee.FindAllStringSubmatchIndex(s, -1) {
		name, begin := s[m[2]:m[3]], m[1]
		if begin < done || strings.EqualFold(name, "authorization") {
			continue // inside what was hidden, or a header, hidden already
		}
		end := begin + valueEnd.FindStringIndex(s[begin:])[0]
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
