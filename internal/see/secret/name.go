package secret

// This file judges by a name whether its value is a secret.

import (
	"slices"
	"strings"
	"unicode"
)

// telling words say that a value is secret wherever they end a word: dbpassword,
// requirepass, masterauth, AWS_SECRET_ACCESS_KEY.
var telling = []string{
	"password", "passwd", "passwort", "passphrase", "passcode", "pass", "pwd", "pw", "secret", "token", "apikey", "accesskey", "secretkey", "authkey",
	"privatekey", "sessionkey", "passkey", "credential", "credentials", "cred", "creds", "auth", "signature",
}

// tellingInside say so anywhere inside a word: TOKENVALUE, PASSX.
var tellingInside = []string{"password", "passwd", "passphrase", "secret", "token", "pass"}

// tellingAlone are telling only as a word of their own.
var tellingAlone = []string{
	"secrets", "bearer", "cookie", "cookies", "sig", "jwt", "authorization", "otp", "totp", "hotp", "hmac", "sas", "psk", "mnemonic", "private", "key",
	"session", "sessionid", "sessid", "phpsessid", "jsessionid", "sid",
}

// innocent words have a telling one inside and mean something else.
var innocent = []string{
	"passive", "passenger", "passthrough", "passthru", "passage", "passes", "passed", "passing", "passport", "bypass", "compass", "trespass", "multipass",
	"lowpass", "highpass", "bandpass", "allpass", "twopass", "onepass", "encompass", "tokenizer", "tokenizers", "tokenize", "tokenization", "tokens", "oauth",
	"secretary", "unauth", "noauth", "preauth",
}

// keyKinds make a secret of the word "key" after them.
var keyKinds = []string{
	"api", "access", "secret", "private", "auth", "encryption", "signing", "account", "shared", "master", "license", "deploy", "session", "hmac", "sas",
	"storage", "subscription", "service", "preshared", "webhook", "root", "admin",
}

// harmless last words turn a telling name into one about a secret.
var harmless = []string{
	"file", "files", "path", "dir", "directory", "name", "id", "ids", "count", "limit", "length", "len", "size", "max", "min", "type", "url", "uri", "urls", "host",
	"port", "expiry", "expires", "expiration", "lifetime", "ttl", "timeout", "policy", "prompt", "stdin", "fd", "env", "field", "header", "column", "socket", "sock",
	"mode", "enabled", "required", "version", "algorithm", "alg", "algo", "budget", "usage", "tokens", "method", "methods", "provider", "backend", "plugin", "app",
	"format", "server", "service", "class", "module", "issuer", "audience", "endpoint", "domain", "realm", "scope", "scopes", "store", "bits", "words", "rate",
	"window", "retries", "interval", "cache", "check", "checks", "cert", "hash", "digest", "source", "manager", "bus", "address", "desktop", "leader", "types",
}

// stems are what telling names have in them; a quick answer for all others.
var stems = []string{"pass", "pw", "secret", "token", "key", "cred", "bearer", "cookie", "sig", "jwt", "auth", "sess", "sid", "otp", "hmac", "sas", "psk", "mnemonic", "private"}

func mayTell(s string) bool {
	lower := strings.ToLower(s)
	return slices.ContainsFunc(stems, func(stem string) bool { return strings.Contains(lower, stem) })
}

// A telltale is how much a name says of its value.
type telltale int

const (
	silent  telltale = iota
	perhaps          // the value decides: it is a secret if it looks like one
	surely
)

// tells judges a name (an option, a variable, a label).
func tells(name string) telltale {
	if len(name) > 256 || name == "PWD" || name == "OLDPWD" || !mayTell(name) {
		return silent
	}
	parts := split(name)
	if len(parts) == 0 || slices.Contains(harmless, parts[len(parts)-1]) && !isSessionID(parts) {
		return silent
	}
	found := silent
	for i, part := range parts {
		part = strings.TrimRight(part, "0123456789")
		if slices.Contains(innocent, part) {
			continue
		}
		last := i == len(parts)-1
		switch {
		case part == "key" && i > 0 && slices.Contains(keyKinds, parts[i-1]):
			return surely
		case part == "key" || part == "private" || strings.HasPrefix(part, "sess") || part == "phpsessid" || part == "jsessionid" || part == "sid":
			if slices.Contains(tellingAlone, part) && (last || isSessionID(parts)) {
				found = perhaps
			}
		case strings.HasSuffix(part, "auth"):
			if last {
				return surely // what follows "auth" is about the manner, not a secret
			}
		case slices.Contains(tellingAlone, part),
			slices.ContainsFunc(telling, func(word string) bool { return strings.HasSuffix(part, word) }),
			slices.ContainsFunc(tellingInside, func(word string) bool { return strings.Contains(part, word) }):
			return surely
		}
	}
	return found
}

func isSessionID(parts []string) bool {
	return len(parts) > 1 && parts[len(parts)-1] == "id" && parts[len(parts)-2] == "session"
}

func isSecretName(name string) bool { return tells(name) != silent }

// switches begin the names of options that turn something on or off and have no
// value behind them.
var switches = []string{"no", "enable", "disable", "use", "require", "with", "without", "skip", "allow", "show", "hide", "redact", "ask", "prompt", "print", "is", "has"}

// isSwitch says that the argument behind an option of that name is no value.
func isSwitch(name string) bool {
	parts := split(name)
	return len(parts) > 1 && slices.Contains(switches, parts[0])
}

// isHeader says that a name is a header's whose value may be of several words.
func isHeader(name string) bool {
	return strings.EqualFold(name, "authorization") || strings.EqualFold(name, "proxy-authorization")
}

// manners are values that say how something is done, not with which secret.
var manners = []string{
	"true", "false", "yes", "no", "on", "off", "none", "null", "nil", "any", "all", "auto", "default", "required", "optional", "enabled", "disabled",
	"basic", "digest", "negotiate", "ntlm", "kerberos", "gssapi", "ldap", "pam", "saml", "oidc", "oauth", "oauth2", "jwt", "iam", "tls", "mtls", "ssl", "cert", "certificate",
	"trust", "peer", "ident", "reject", "md5", "scram-sha-256", "scram-sha-1", "scram-sha-512", "cram-md5", "plain", "login", "password", "passwd", "token", "tokens", "bearer",
	"local", "anonymous", "internal", "external", "native", "simple", "file", "stdin", "prompt", "env", "keyring", "keychain", "secret", "socket", "x509", "session", "cookie",
}

// hides says whether the value of that name is to be hidden: the name tells it,
// and the value is neither a switch nor a number nor a path.
func hides(name, value string) bool {
	telling := tells(name)
	if telling == silent {
		return false
	}
	trimmed := strings.Trim(value, `"'`)
	lower := strings.ToLower(trimmed)
	if lower == "" || lower == strings.ToLower(Mark) || isReference(trimmed) || isSystemPath(trimmed) {
		return false
	}
	parts := split(name)
	last := strings.TrimRight(parts[len(parts)-1], "0123456789")
	switch {
	case telling == perhaps:
		return looksRandom(trimmed)
	case slices.Contains(manners, lower) && !strings.Contains(last, "pass") && !strings.HasSuffix(last, "pw") && last != "pwd":
		return false
	case slices.Contains(manners[:7], lower) || lower == "stdin" || lower == "prompt":
		return false
	case isAlgorithm(lower):
		return false
	case strings.HasSuffix(last, "key") || strings.HasSuffix(last, "auth") || strings.Contains(last, "cred") || last == "cookie" || last == "cookies" || last == "signature":
		return !isPath(trimmed)
	case last == "secret" || last == "secrets":
		return !isMount(lower)
	case strings.HasSuffix(last, "pass") || strings.HasSuffix(last, "token"):
		return len(trimmed) > 6 || strings.Trim(trimmed, "0123456789") != ""
	}
	return true
}

// isReference says that a value names where the secret is: a variable of a
// shell or a template, or openssl's ways.
func isReference(value string) bool {
	for _, prefix := range []string{"${", "$(", "{{", "<", "env:", "file:", "fd:"} {
		if strings.HasPrefix(value, prefix) {
			return true
		}
	}
	return len(value) > 1 && value[0] == '$' && strings.Trim(value[1:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == ""
}

// isSystemPath is a file's name that begins as most do; a password may begin
// with a slash, but hardly so.
func isSystemPath(value string) bool {
	rest, ok := strings.CutPrefix(value, "/")
	root, below, two := strings.Cut(rest, "/")
	return ok && two && below != "" && slices.Contains([]string{"etc", "usr", "var", "run", "home", "opt", "root", "tmp", "proc", "dev", "mnt", "srv", "lib", "bin", "sys"}, root)
}

// isMount is the value of a --secret that is mounted from elsewhere.
func isMount(value string) bool {
	return strings.HasPrefix(value, "id=") || strings.HasPrefix(value, "source=") || strings.HasPrefix(value, "type=")
}

// isPath says that a value is a file's name.
func isPath(value string) bool {
	for _, prefix := range []string{"/", "./", "../", "~/", "@"} {
		if strings.HasPrefix(value, prefix) {
			return true
		}
	}
	dot := strings.LastIndexByte(value, '.')
	return dot > 0 && slices.Contains([]string{"pem", "key", "crt", "cer", "pub", "txt", "json", "yaml", "yml", "jar", "p12", "pfx", "jks", "asc", "gpg", "sig", "conf", "cfg", "ini", "ldb"}, value[dot+1:])
}

var algorithms = []string{"sha", "md5", "aes", "hs", "rs", "es", "ps", "ed25519", "rsa", "ecdsa", "blake", "hmac", "chacha", "none", "poly1305", "whirlpool", "ripemd"}

// isAlgorithm says that a value is the name of an algorithm: sha256, AES-256-GCM.
func isAlgorithm(lower string) bool {
	for _, prefix := range algorithms {
		if rest, ok := strings.CutPrefix(lower, prefix); ok && len(rest) <= 12 && strings.Trim(rest, "0123456789-_abcdeghmopstwy") == "" && strings.ContainsAny(lower, "0123456789") && len(rest) > 0 {
			return strings.Trim(rest, "0123456789-_/") == "" || strings.ContainsAny(rest, "-_")
		}
	}
	return false
}

// looksRandom says that a value is more likely a key than a word, a path, a
// number or a list of sort keys.
func looksRandom(value string) bool {
	if len(value) < 7 || isPath(value) || strings.ContainsAny(value, ",:") || isUUID(value) {
		return false
	}
	digits := strings.IndexFunc(value, unicode.IsDigit) >= 0
	letters := strings.IndexFunc(value, unicode.IsLetter) >= 0
	if !digits || !letters {
		return letters && len(value) >= 20 && !strings.ContainsAny(value, "-_./ ")
	}
	inner := strings.IndexFunc(strings.TrimRight(value, "0123456789"), unicode.IsDigit) >= 0
	return inner || len(value) >= 16
}

func isUUID(value string) bool {
	return len(value) == 36 && strings.Count(value, "-") == 4 && value[8] == '-' && value[13] == '-'
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
