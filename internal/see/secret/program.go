package secret

// This file lists the programs whose options carry secrets under names that do
// not tell.

import (
	"regexp"
	"slices"
	"strings"
)

// A program is what is known of one program's options.
type program struct {
	attached string              // letters with the secret right behind: -pSECRET
	separate string              // letters with the secret as the next argument: -p SECRET
	pairs    string              // letters with user and secret, either way: -u user:SECRET
	names    []string            // long options with user and secret
	divider  string              // between user and secret
	ports    bool                // the letters also publish ports, which are kept
	grouped  bool                // a user is followed by a group, not by a secret
	word     func(string) string // hides what else is a secret in a word
	operands operands            // which of the words that are no options are secrets
}

// operands tell which words that are no options are secrets, for programs that
// take them by their place.
type operands struct {
	from   int            // the first that is one, from 1; 0 is none
	verbs  map[string]int // the first after this word instead
	after  string         // the one behind this word
	given  string         // only with this option of one letter
	sooner string         // with this one, one place sooner
	values string         // options of one letter whose value is the next word
	most   int            // how many may be secrets; 0 is all that follow
}

var programs = func() map[string]*program {
	all := map[string]*program{
		"sshpass":   {attached: "p", separate: "p"},
		"curl":      {pairs: "uU", names: []string{"user", "proxy-user"}, divider: ":"},
		"redis-cli": {attached: "a", separate: "a"},
		"smbclient": {pairs: "U", names: []string{"user"}, divider: "%"},
		"docker":    {separate: "p", ports: true},
		"podman":    {separate: "p", ports: true},
		"sqlcmd":    {attached: "P", separate: "P"},
		"zip":       {separate: "P"},
		"lftp":      {pairs: "u", divider: ","},
		"net":       {pairs: "U", divider: "%"},
		"rpcclient": {pairs: "U", divider: "%"},
		"ipmitool":  {separate: "P"},
		"htpasswd":  {operands: operands{from: 3, given: "b", sooner: "n", values: "Cr"}},
		"htdigest":  {operands: operands{from: 4}},
		"mkpasswd":  {operands: operands{from: 1, values: "mSRPs", most: 1}},
		"nmcli":     {operands: operands{after: "password"}},
		"vault":     {operands: operands{verbs: map[string]int{"login": 1}}},
		"isql":      {operands: operands{from: 3}},
		"rabbitmqctl": {operands: operands{values: "n", most: 1, verbs: map[string]int{
			"add_user": 2, "change_password": 2, "authenticate_user": 2}}},
		"sqlplus":        {word: afterSlash},
		"exp":            {word: afterSlash},
		"xfreerdp":       {word: afterSlashP},
		"wlfreerdp":      {word: afterSlashP},
		"wpa_passphrase": {operands: operands{from: 2}},
		"unzip":          {separate: "P"},
	}
	for p, names := range map[*program][]string{
		{attached: "p"}: {"mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlcheck", "mysqlshow", "mysqlslap", "mysqlpump", "mysqlsh",
			"mysqlbinlog", "mariadb", "mariadb-dump", "mariadb-admin", "mariadb-backup", "mycli", "xtrabackup", "7z", "7za", "7zr", "unrar"},
		{separate: "p"}:                {"mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport"},
		{separate: "AXc"}:              {"snmpget", "snmpset", "snmpwalk", "snmpbulkwalk", "snmptable"},
		{attached: "P", separate: "P"}: {"mosquitto_pub", "mosquitto_sub", "mosquitto_rr"},
		{attached: "p", separate: "p"}: {"rdesktop", "evil-winrm", "ncftp", "ncftpget", "ncftpput"},
		{attached: "w", separate: "w"}: {"ldapsearch", "ldapmodify", "ldapadd", "ldapdelete", "ldappasswd", "ldapwhoami"},
	} {
		for _, name := range names {
			all[name] = p
		}
	}
	for _, name := range grouping {
		if all[name] == nil {
			all[name] = &program{}
		}
		all[name].grouped = true
	}
	return all
}()

// afterSlash hides the secret of user/secret@database, as Oracle's tools take it.
func afterSlash(arg string) string {
	user, rest, ok := strings.Cut(arg, "/")
	if !ok || user == "" || rest == "" || strings.ContainsAny(user, "@-.") {
		return arg
	}
	if password, database, ok := strings.Cut(rest, "@"); ok && password != "" {
		return user + "/" + Mark + "@" + database
	}
	return user + "/" + Mark
}

// afterSlashP hides what follows /p: in the manner of Windows.
func afterSlashP(arg string) string {
	for _, option := range []string{"/p:", "/gp:"} {
		if strings.HasPrefix(arg, option) && len(arg) > len(option) {
			return option + Mark
		}
	}
	return arg
}

// grouping programs take a user and a group where others take a user and a
// secret.
var grouping = []string{
	"docker", "podman", "nerdctl", "kubectl", "crictl", "runc", "crun", "setpriv", "chroot", "gosu", "su-exec", "uwsgi", "gunicorn", "spawn-fcgi", "start-stop-daemon", "install",
	"chown", "buildah", "systemd-run", "setuidgid", "s6-setuidgid", "git", "date", "diff", "sort", "unshare", "python", "python3", "node", "ffmpeg", "lxc",
}

// groups says that what follows a user and a colon is a group.
func (p *program) groups() bool { return p != nil && p.grouped }

// logins are options of many programs with a user, and perhaps a secret.
var logins = []string{"u", "user", "username", "userpwd", "login", "basic-auth", "basicauth", "http-auth", "proxy-auth", "proxy-user", "http-user", "auth", "userpass", "user-pass", "credentials", "creds"}

func isLogin(name string) bool { return slices.Contains(logins, name) }

// hideLogin hides the secret in user:secret, and leaves what is no such pair: a
// name alone, numbers, an address with a port, a path.
func hideLogin(value string) string {
	user, password, found := strings.Cut(value, ":")
	digits := func(s string) bool { return strings.Trim(s, "0123456789") == "" }
	if !found || user == "" || password == "" || strings.ContainsAny(user, "/ \t") || password[0] == '/' || password[0] == '\\' ||
		digits(user) && digits(password) || digits(password) && (strings.Contains(user, ".") || user == "localhost") {
		return value
	}
	return user + ":" + Mark
}

// hideValue hides a value, but for the user of a pair where the name is of one
// that takes a pair.
func hideValue(name, value string) string {
	if strings.HasPrefix(value, "pass:") {
		return "pass:" + Mark // openssl's way to say what follows
	}
	if strings.HasSuffix(strings.ToLower(name), "auth") {
		if shown := hideLogin(value); shown != value {
			return shown
		}
	}
	return Mark
}

// programNamed returns what is known of the program that arg is the path of.
func programNamed(arg string) (*program, bool) {
	if arg == "" || arg[0] == '-' {
		return nil, false
	}
	p, ok := programs[strings.ToLower(arg[strings.LastIndexByte(arg, '/')+1:])]
	return p, ok
}

// published is what docker's -p takes outside its login command.
var published = regexp.MustCompile(`^[\d.:\[\]a-f-]*\d(?:/(?:tcp|udp|sctp))?$`)

// keeps says that the value of an option that can carry a secret is none.
func (p *program) keeps(value string) bool { return p.ports && published.MatchString(value) }

func (p *program) isPair(name string) bool { return slices.Contains(p.names, name) }

// hidePair hides the secret behind the user's name; a name alone is kept.
func (p *program) hidePair(value string) string {
	user, _, found := strings.Cut(value, p.divider)
	if !found {
		return value
	}
	return user + p.divider + Mark
}
