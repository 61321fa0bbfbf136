package secret

// This file knows secrets by their look, wherever in a text they stand.

import (
	"regexp"
	"slices"
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
	if strings.Contains(s, "@") && strings.Contains(s, ":") {
		if strings.Contains(s, "://") {
			s = userinfo.ReplaceAllStringFunc(s, hideUserinfo)
		}
		s = hideBareUserinfo(s)
	}
	if !mayTell(s) {
		return s
	}
	lower := strings.ToLower(s)
	if strings.Contains(lower, "authorization") {
		s = headers.ReplaceAllString(s, "${1}"+Mark)
	}
	if strings.Contains(lower, "cookie") {
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
		"AKIA":            `\bAKIA[A-Z0-9]{12,}`, // AWS
		"ASIA":            `\bASIA[A-Z0-9]{12,}`,
		"ghp_":            `\bghp_[A-Za-z0-9]{6,}`, // GitHub
		"gho_":            `\bgho_[A-Za-z0-9]{6,}`,
		"ghu_":            `\bghu_[A-Za-z0-9]{6,}`,
		"ghs_":            `\bghs_[A-Za-z0-9]{6,}`,
		"ghr_":            `\bghr_[A-Za-z0-9]{6,}`,
		"github_pat_":     `\bgithub_pat_[A-Za-z0-9_]{6,}`,
		"glpat-":          `\bglpat-[A-Za-z0-9_-]{6,}`,   // GitLab
		"xox":             `\bxox[a-z]-[A-Za-z0-9-]{6,}`, // Slack
		"xapp-":           `\bxapp-[A-Za-z0-9-]{10,}`,
		"hooks.slack.com": `hooks\.slack\.com/services/[A-Za-z0-9/_-]+`,
		"k_live_":         `\b[sr]k_live_[A-Za-z0-9]{10,}`, // Stripe
		"k_test_":         `\b[sr]k_test_[A-Za-z0-9]{10,}`,
		"sk-":             `\bsk-(?:[A-Za-z]+-)*[A-Za-z0-9_]*\d[A-Za-z0-9_-]{10,}`, // model providers
		"AIza":            `\bAIza[0-9A-Za-z_-]{16,}`,                              // Google
		"ya29.":           `\bya29\.[0-9A-Za-z_-]{20,}`,
		"npm_":            `\bnpm_[A-Za-z0-9]*\d[A-Za-z0-9]{10,}`, // registries
		"pypi-":           `\bpypi-[A-Za-z0-9_-]{16,}`,
		"hf_":             `\bhf_[A-Za-z]{30,}`,
		"dop_v1_":         `\bdop_v1_[a-f0-9]{30,}`,       // DigitalOcean
		"SG.":             `\bSG\.[\w-]{16,}\.[\w-]{16,}`, // SendGrid
		"hvs.":            `\bhvs\.[\w-]{20,}`,            // Vault
		"/api/webhooks/":  `/api/webhooks/\d+/[\w-]+`,     // Discord
		":AA":             `\b\d{8,10}:AA[\w-]{20,}`,      // Telegram
		"eyJ":             `\beyJ[\w-]{8,}(?:\.[\w-]+)*`,  // JSON web tokens
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
	cookies = regexp.MustCompile(`(?i)(\b(?:set-)?cookie:\s*)[^\s;"'=]+=[^\s;"']*(?:;\s*[^\s;"'=]+(?:=[^\s;"']*)?)*`)
	bearer  = regexp.MustCompile(`(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}`)
	// userinfo is greedy, so that a password may hold @ and /.
	userinfo = regexp.MustCompile(`://[^\s"'/@]*(?::[^\s"']*)?@`)
	address  = regexp.MustCompile(`^://[^/:]*:\d{1,5}/`)
)

// hideUserinfo hides the password of a URL, or a user that is a token.
func hideUserinfo(s string) string {
	if address.MatchString(s) {
		return s // a port and an @ further on in the path
	}
	user, password, found := strings.Cut(s[len("://"):len(s)-1], ":")
	isToken := len(user) >= 20 || strings.HasPrefix(user, Mark) || password == "x-oauth-basic" || found && password == ""
	switch {
	case isToken && found && user != "":
		return "://" + Mark + ":" + Mark + "@"
	case found:
		return "://" + user + ":" + Mark + "@"
	case isToken:
		return "://" + Mark + "@"
	}
	return s
}

// bare is user:secret@host without a scheme, at the beginning of a value.
var bare = regexp.MustCompile(`(^|[\s="'(,;])([^\s:@/="'(,;]+):([^\s/"'][^\s/"']*|[^\s"']*)@([A-Za-z0-9.\[(][^\s"']*)`)

// otherUses are the words before a colon with an @ behind them that are no
// users: package names, mail addresses, images with a digest.
var otherUses = []string{"npm", "link", "file", "workspace", "pkg", "jsr", "github", "mailto", "sip", "sips", "xmpp", "acct", "data", "javascript", "portal", "patch", "http", "https"}

// hideBareUserinfo hides the secret in user:secret@host.
func hideBareUserinfo(s string) string {
	return bare.ReplaceAllStringFunc(s, func(found string) string {
		m := bare.FindStringSubmatch(found)
		before, user, password, host := m[1], m[2], m[3], m[4]
		if at := strings.LastIndexByte(host, '@'); at >= 0 && !strings.HasPrefix(host, "(") {
			password, host = password+"@"+host[:at], host[at+1:] // a password with @ in it
		}
		dsn := strings.Contains(host, "(")
		switch {
		case password == Mark, slices.Contains(otherUses, strings.ToLower(user)),
			strings.HasPrefix(host, "sha256:"), strings.HasPrefix(host, "sha512:"), strings.HasPrefix(password, "//"),
			strings.Contains(password, "/") && !dsn,
			strings.Contains(user, ".") && strings.Trim(password, "0123456789") == "", // an address and a port
			release.MatchString(host) && !ipv4.MatchString(host):
			return found
		}
		return before + user + ":" + Mark + "@" + host
	})
}

var (
	release = regexp.MustCompile(`^\d+(?:\.\d+|\.x)*(?:[-+][\w.]*)?$`)
	ipv4    = regexp.MustCompile(`^\d+\.\d+\.\d+\.\d+(?:$|[:/])`)
)

// hideHeader hides the whole value of an argument that is a telling header.
func hideHeader(arg string) string {
	name, value, found := strings.Cut(arg, ":")
	if !found || strings.ContainsAny(name, " \t=/\"'{") || strings.TrimSpace(value) == "" {
		return arg
	}
	isCookie := strings.EqualFold(name, "cookie") || strings.EqualFold(name, "set-cookie")
	if !isCookie && !isHeader(name) && !(strings.HasPrefix(value, " ") && hides(name, strings.TrimSpace(value))) {
		return arg
	}
	secret := strings.TrimLeft(value, " ")
	lead := arg[:len(arg)-len(secret)]
	if scheme, rest, two := strings.Cut(secret, " "); two && isScheme(scheme) && strings.TrimSpace(rest) != "" {
		lead += scheme + " "
	}
	return lead + Mark
}

// isScheme says that a word is one of the schemes of an Authorization header.
func isScheme(word string) bool {
	return slices.Contains([]string{"bearer", "basic", "token", "digest", "negotiate", "apikey"}, strings.ToLower(word))
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
		if strings.HasPrefix(value, Mark) || strings.HasSuffix(value, Mark) || !hides(name, value) {
			continue
		}
		b.WriteString(s[done:begin])
		b.WriteString(hideValue(name, value))
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

// valueAfter returns where the value from that place on begins and ends: a
// quoted one at its quote.
func valueAfter(s string, from int) (begin, end int) {
	for n := 0; n < longestGap && from < len(s) && s[from] == ' '; n++ {
		from++
	}
	if from < len(s) && (s[from] == '"' || s[from] == '\'') {
		quote := s[from]
		from++
		if n := strings.IndexByte(s[from:], quote); n >= 0 {
			return from, from + n
		}
	}
	if n := strings.IndexAny(s[from:], " \t\r\n\"'&;,(){}"); n >= 0 {
		return from, from + n
	}
	return from, len(s)
}
