package secret

// This file judges by a name whether its value is a secret.

import (
	"slices"
	"strings"
	"unicode"
)

// telling words say that a value is secret; a telling word may have a prefix
// run into it (dbpassword) or digits behind it (password1).
var telling = []string{
	"password", "passwd", "passwort", "passphrase", "passcode", "secret", "token", "apikey", "accesskey", "secretkey", "authkey",
	"credential", "credentials", "pwd",
}

// tellingAlone are telling only as a word of their own.
var tellingAlone = []string{"pass", "secrets", "creds", "bearer", "cookie", "signature", "sig", "jwt", "authorization"}

// keyKinds make a secret of the word "key" after them.
var keyKinds = []string{"api", "access", "secret", "private", "auth", "encryption", "signing", "account", "shared", "master", "license", "deploy"}

// harmless last words turn a telling name into one about a secret.
var harmless = []string{
	"file", "files", "path", "dir", "directory", "name", "id", "ids", "count", "limit", "length", "size", "max", "min", "type", "url", "uri", "host", "port",
	"expiry", "expires", "ttl", "timeout", "policy", "prompt", "stdin", "fd", "env", "field", "header", "column", "socket", "sock", "mode", "enabled",
	"required", "version", "algorithm", "alg", "budget", "usage", "tokens",
}

// stems are what telling names have in them; a quick answer for all others.
var stems = []string{"pass", "pwd", "secret", "token", "key", "cred", "bearer", "cookie", "sig", "jwt", "authorization"}

func mayTell(s string) bool {
	lower := strings.ToLower(s)
	return slices.ContainsFunc(stems, func(stem string) bool { return strings.Contains(lower, stem) })
}

// isSecretName says whether name (an option, a variable, a label) tells that
// its value is a secret.
func isSecretName(name string) bool {
	if len(name) > 256 || name == "PWD" || name == "OLDPWD" || !mayTell(name) {
		return false
	}
	parts := split(name)
	if len(parts) == 0 || slices.Contains(harmless, parts[len(parts)-1]) {
		return false
	}
	for i, part := range parts {
		part = strings.TrimRight(part, "0123456789")
		switch {
		case slices.Contains(tellingAlone, part),
			slices.ContainsFunc(telling, func(word string) bool { return strings.HasSuffix(part, word) }),
			part == "key" && i > 0 && slices.Contains(keyKinds, parts[i-1]):
			return true
		}
	}
	return false
}

// hides says whether the value of that name is to be hidden: the name tells
// it, and the value is neither a switch nor a number nor the path of a key.
func hides(name, value string) bool {
	if !isSecretName(name) {
		return false
	}
	trimmed := strings.Trim(value, `"'`)
	switch strings.ToLower(trimmed) {
	case "", "true", "false", "yes", "no", "on", "off", "none", "null", "nil", strings.ToLower(Mark):
		return false
	}
	lower := strings.ToLower(name)
	switch {
	case strings.HasSuffix(lower, "key"):
		return !strings.HasPrefix(trimmed, "./") && !strings.HasPrefix(trimmed, "~/") && !strings.HasPrefix(trimmed, "/")
	case strings.HasSuffix(lower, "pass") || strings.HasSuffix(lower, "token"):
		return len(trimmed) > 6 || strings.Trim(trimmed, "0123456789") != ""
	}
	return true
}

// split cuts a name into lower-case words at punctuation and where capitals
// begin a word: "AWS_SECRET_KEY", "dbPassword" and "APIKey" are all cut.
func split(name string) []string {
	var parts []string
	begin := 0
	cut := func(end int) {
		if end > begin {
			parts = append(parts, strings.ToLower(name[begin:end]))
		}
	}
	var before rune
	for i, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			cut(i)
			begin = i + len(string(r))
		case unicode.IsUpper(r) && unicode.IsLower(before):
			cut(i)
			begin = i
		case unicode.IsLower(r) && unicode.IsUpper(before) && i-1 > begin && name[i-1] < 0x80:
			cut(i - 1)
			begin = i - 1
		}
		before = r
	}
	cut(len(name))
	return parts
}
