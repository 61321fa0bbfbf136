package secret

import (
	"strings"
	"testing"
)

const hush = "hunter2xyz"

// Every row holds hush where a secret is and must not after; the rest stays.
func TestCommandLineHides(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"app --password [redacted] --user bob":                          {"app", "--password", hush, "--user", "bob"},
		"app --password=[redacted] x":                                   {"app", "--password=" + hush, "x"},
		"app -password [redacted]":                                      {"app", "-password", "two words " + hush},
		"app --db-pwd [redacted]":                                       {"app", "--db-pwd", hush},
		"env API_TOKEN=[redacted] run":                                  {"env", "API_TOKEN=" + hush, "run"},
		"env SECRET_KEY_BASE=[redacted] run":                            {"env", "SECRET_KEY_BASE=" + hush, "run"},
		"env X_PASSWORD=[redacted]":                                     {"env", "X_PASSWORD=one two " + hush},
		"java -Dspring.datasource.password=[redacted]":                  {"java", "-Dspring.datasource.password=" + hush},
		"app --dbPassword=[redacted] --APIKey=[redacted]":               {"app", "--dbPassword=" + hush, "--APIKey=" + hush},
		"mysql -uroot -p[redacted] shop":                                {"mysql", "-uroot", "-p" + hush, "shop"},
		"sudo /usr/bin/mysqldump -p[redacted] --all":                    {"sudo", "/usr/bin/mysqldump", "-p" + hush, "--all"},
		"sshpass -p [redacted] ssh host":                                {"sshpass", "-p", hush, "ssh", "host"},
		"curl -u bob:[redacted] http://x/":                              {"curl", "-u", "bob:" + hush, "http://x/"},
		"curl -ubob:[redacted] --user=bob:[redacted]":                   {"curl", "-ubob:" + hush, "--user=bob:" + hush},
		"curl --proxy-user bob:[redacted]":                              {"curl", "--proxy-user", "bob:" + hush},
		"curl -H Authorization: Bearer [redacted] http://x/":            {"curl", "-H", "Authorization: Bearer " + hush, "http://x/"},
		"curl -H authorization: [redacted] http://x/":                   {"curl", "-H", "authorization: " + hush, "http://x/"},
		"curl -H X-Api-Key: [redacted]":                                 {"curl", "-H", "X-Api-Key: " + hush},
		"curl -H Cookie: [redacted]":                                    {"curl", "-H", "Cookie: a=b; session=" + hush},
		"git clone https://bob:[redacted]@example.org/x.git":            {"git", "clone", "https://bob:" + hush + "@example.org/x.git"},
		"app postgres://u:[redacted]@db:5432/x":                         {"app", "postgres://u:p/a@" + hush + "@db:5432/x"},
		"get https://x/?access_token=[redacted]&page=2":                 {"get", "https://x/?access_token=" + hush + "&page=2"},
		"sh -c mysql -p[redacted] < dump && curl -u a:[redacted] x":     {"sh", "-c", "mysql -p" + hush + " < dump && curl -u a:" + hush + " x"},
		"sh -c TOKEN=[redacted] run --password '[redacted]' x":          {"sh", "-c", "TOKEN=" + hush + " run --password '" + hush + " b' x"},
		"sqlcmd -P [redacted] -S host":                                  {"sqlcmd", "-P", hush, "-S", "host"},
		"app Server=db;User=sa;Password=[redacted];Timeout=3":           {"app", "Server=db;User=sa;Password=" + hush + ";Timeout=3"},
		`app {"user":"a","password":"[redacted]","n":1}`:                {"app", `{"user":"a","password":"` + hush + `","n":1}`},
		"openssl enc -passin pass:[redacted]":                           {"openssl", "enc", "-passin", "pass:" + hush},
		"docker login -u bob -p [redacted] reg":                         {"docker", "login", "-u", "bob", "-p", hush, "reg"},
		"redis-cli -a [redacted] ping":                                  {"redis-cli", "-a", hush, "ping"},
		"ldapsearch -w [redacted] -b dc=x":                              {"ldapsearch", "-w", hush, "-b", "dc=x"},
		"smbclient //h/s -U bob%[redacted]":                             {"smbclient", "//h/s", "-U", "bob%" + hush},
		"npm --//registry/:_authToken=[redacted]":                       {"npm", "--//registry/:_authToken=" + hush},
		"redis-server --requirepass [redacted] --masterauth=[redacted]": {"redis-server", "--requirepass", hush, "--masterauth=" + hush},
		"x --masterauth [redacted]":                                     {"x", "--masterauth", hush},
		"x --proxy=u:[redacted]@h:80 --pw=[redacted]":                   {"x", "--proxy=u:" + hush + "@h:80", "--pw=" + hush},
		"x https://[redacted]:[redacted]@github.com":                    {"x", "https://ghp_tok3nXYZ:x-oauth-basic@github.com"},
		"x --dsn=user:[redacted]@tcp(10.0.0.1:3306)/db":                 {"x", "--dsn=user:" + hush + "@tcp(10.0.0.1:3306)/db"},
		"x user:[redacted]@tcp(db)/x":                                   {"x", "user:p/" + hush + "@tcp(db)/x"},
		"x u:[redacted]@10.0.0.1":                                       {"x", "u:p@" + hush + "@10.0.0.1"},
		"x --basic-auth=u:[redacted] --basic-auth u:[redacted]":         {"x", "--basic-auth=u:" + hush, "--basic-auth", "u:" + hush},
		"http --user=a:[redacted] -u a:[redacted] -u b":                 {"http", "--user=a:" + hush, "-u", "a:" + hush, "-u", "b"},
		"x --session-key=[redacted] --otp=[redacted] --hmac=[redacted]": {"x", "--session-key=" + hush, "--otp=123456", "--hmac=" + hush},
		"x --sas=[redacted] --key=[redacted]":                           {"x", "--sas=" + hush, "--key=" + hush},
		"x --auth [redacted] --signature=[redacted]":                    {"x", "--auth", hush, "--signature=" + hush},
		"x --key=[redacted]":                                            {"x", "--key=s3cretK"},
		"plink -pw [redacted] host":                                     {"plink", "-pw", hush, "host"},
		"x GITHUB_TOKEN_RO=[redacted] DB_PASS=[redacted] MYPASSX=[redacted] X_PASSWORD=[redacted]": {
			"x", "GITHUB_TOKEN_RO=" + hush, "DB_PASS=" + hush, "MYPASSX=" + hush, "X_PASSWORD=" + hush},
		"curl -H Cookie: [redacted] https://h/ --next b":               {"curl", "-H", "Cookie: a=b; c=" + hush, "https://h/", "--next", "b"},
		"curl -H Cookie: [redacted] [redacted] https://h/":             {"curl", "-H", "Cookie:", "a=b;", "c=" + hush, "https://h/"},
		"curl -H Authorization: Bearer [redacted] https://h/":          {"curl", "-H", "Authorization:", "Bearer", hush, "https://h/"},
		"curl -H Authorization: [redacted] https://h/":                 {"curl", "-H", "Authorization: Custom a b " + hush, "https://h/"},
		"x password = [redacted] y":                                    {"x", "password", "=", hush, "y"},
		"x --password= [redacted] y":                                   {"x", "--password=", hush, "y"},
		"postgres: u db token=[redacted]":                              {"postgres: u db token=" + hush},
		"https://titleuser:[redacted]@h/":                              {"https://titleuser:" + hush + "@h/"},
		`app {"password":"[redacted]","n":1}`:                          {"app", `{"password":"two words ` + hush + `","n":1}`},
		"x --private=[redacted] --sessionid=[redacted]":                {"x", "--private=a1b2c3" + hush, "--sessionid=a1b2c3d4e5" + hush},
		"x [redacted] [redacted]":                                      {"x", "xoxp-abc123def", "glpat-abcDEF123"},
		"x [redacted] ":                                                {"x", "sk-proj-abcDEF123abcDEF123", ""},
		"x [redacted] y":                                               {"x", "AKIAIOSFODNN7EXAMPLE", "y"},
		"x [redacted] z":                                               {"x", "ghp_abcdefghijklmnopqrstuvwxyz0123456789", "z"},
		"x https://[redacted]@github.com/a":                            {"x", "https://ghp_abcdefghijklmnopqrstuvwxyz0123456789@github.com/a"},
		"x [redacted] s":                                               {"x", "xoxb-123456789012-abcdefghijkl", "s"},
		"x [redacted] j":                                               {"x", "eyJhbGciOiJIUzI1.eyJzdWIiOiIx.abc-DEF", "j"},
		"htpasswd -b /etc/users bob [redacted]":                        {"htpasswd", "-b", "/etc/users", "bob", hush},
		"/usr/bin/htpasswd -cbB -C 10 users bob [redacted]":            {"/usr/bin/htpasswd", "-cbB", "-C", "10", "users", "bob", hush},
		"htpasswd -nb bob [redacted]":                                  {"htpasswd", "-nb", "bob", hush},
		"sh -c htpasswd -b f bob [redacted] && cat f":                  {"sh", "-c", "htpasswd -b f bob " + hush + " && cat f"},
		"rabbitmqctl -n rabbit add_user bob [redacted]":                {"rabbitmqctl", "-n", "rabbit", "add_user", "bob", hush},
		"rabbitmqctl change_password bob [redacted]":                   {"rabbitmqctl", "change_password", "bob", hush},
		"nmcli dev wifi connect home password [redacted] ifname wlan0": {"nmcli", "dev", "wifi", "connect", "home", "password", hush, "ifname", "wlan0"},
		"wpa_passphrase home [redacted]":                               {"wpa_passphrase", "home", hush},
		"mkpasswd -m sha-512 [redacted]":                               {"mkpasswd", "-m", "sha-512", hush},
		"vault login [redacted]":                                       {"vault", "login", hush},
		"isql dsn bob [redacted] -b":                                   {"isql", "dsn", "bob", hush, "-b"},
		"lftp -u bob,[redacted] ftp.example.org":                       {"lftp", "-u", "bob," + hush, "ftp.example.org"},
		"net ads join -U bob%[redacted]":                               {"net", "ads", "join", "-U", "bob%" + hush},
		"ipmitool -H h -U admin -P [redacted] power status":            {"ipmitool", "-H", "h", "-U", "admin", "-P", hush, "power", "status"},
		"mosquitto_pub -u bob -P [redacted] -t x":                      {"mosquitto_pub", "-u", "bob", "-P", hush, "-t", "x"},
		"snmpwalk -v3 -u bob -A [redacted] -X [redacted] host":         {"snmpwalk", "-v3", "-u", "bob", "-A", hush, "-X", hush, "host"},
		"mount -t cifs //h/s /mnt -o username=bob,password=[redacted]": {"mount", "-t", "cifs", "//h/s", "/mnt", "-o", "username=bob,password=" + hush},
		"sqlplus bob/[redacted]@db":                                    {"sqlplus", "bob/" + hush + "@db"},
		"xfreerdp /u:bob /p:[redacted] /v:host":                        {"xfreerdp", "/u:bob", "/p:" + hush, "/v:host"},
		"sshpass -p[redacted] ssh bob@host":                            {"sshpass", "-p" + hush, "ssh", "bob@host"},
		"x [redacted] k":                                               {"x", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "k"},
	} {
		got := CommandLine(args)
		if got != want {
			t.Errorf("CommandLine(%q)\n got %s\nwant %s", args, got, want)
		}
	}
}

func TestCommandLineKeeps(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"cc1plus -O2 source.cc",
		"app --password-file /run/secrets/db --token-ttl 5m",
		"mysql -uroot -p shop",
		"app --password --verbose",
		"ffmpeg -pass 2 -i x",
		"docker run -p 8080:80/tcp -p 127.0.0.1:53:53/udp img",
		"ssh -i key -p 22 git@example.org",
		"git clone ssh://git@example.org/x.git",
		"proxy http://proxy:3128/a@b",
		"env PWD=/home/bob OLDPWD=/tmp run",
		"app --require-token=true --max-tokens 4096 --max-token=50",
		"ssh-agent SSH_AUTH_SOCK=/tmp/x",
		"nginx: worker process",
		"server --private-key /etc/ssl/key.pem --tls-key=./x.key",
		"passwd bob",
		"kworker/u8:1-events",
		"curl -u bob http://x/",
		"postgres: walwriter",
		"sort --key=2,3n -t: --key=name --key=id",
		"x --key=/etc/ssl/x.key --private-key=./k --sort-key=created_at",
		"docker run -u 1000:1000 --user=www-data:www-data --name web redis:7@sha256:0123456789abcdef",
		"git clone git@github.com:org/repo.git",
		"npm install foo@npm:bar@1.2.3 npm:bar@2.0.0",
		"redis-server *:6379",
		"redis-server 127.0.0.1:6379@16379",
		"kube-apiserver --authorization-mode=Node,RBAC --enable-bootstrap-token-auth=true --token-auth-file=/x --service-account-issuer=https://k",
		"openvpn --auth SHA512 --auth-user-pass /etc/openvpn/login.conf --auth none",
		"Xorg :0 -auth /var/run/lightdm/root/:0 -nolisten tcp",
		"initdb --auth=scram-sha-256 --auth-host=md5 --auth-local=peer",
		"tmux new-session -s work --session work",
		"openssl dgst -hmac-alg sha256 --hmac=sha256",
		"ruby PASSENGER_APP_ENV=production BYPASS_CACHE=1 TOKENIZERS_PARALLELISM=false COMPASS=north",
		"x --tokenizer=bert --passes=2 --passive --author=joe --authority=h:80 --oauth=true",
		"x --show-secrets list --no-auth serve --ask-pass site.yml",
		"sshd: kate@pts/0",
		"scp a.txt kate@host:dir/x",
		"ssh kate@10.0.0.1 -p 22",
		"curl -u bob --user-agent x:y http://x:80/a",
		"python -u main.py --host 0.0.0.0:8080",
		"date -u 12:30:15",
		"x mailto:kate@example.org sip:kate@example.org",
		"env KEYBOARD=us XKB_KEYS=x DISPLAY=:0 SSH_ASKPASS=/usr/bin/x",
		"docker build --secret id=npmrc,src=/x .",
		"mount -o uid=1000,sec=krb5 srv:/x /mnt",
		"java -Djava.security.auth.login.config=/x -Xmx1g -cp a:b com.acme.Main",
		"x --certificate-authority=/ca --assassin=3 --sassy=x --significant=5 --design=x --signal=9",
		"vault server -config=/etc/vault.hcl",
		"gpg --keyserver hkps://keys.openpgp.org --recv-keys 0xDEADBEEF01234567",
		"ssh-keygen -t ed25519 -f key",
		"chrome --type=renderer --field-trial-handle=1,2,3 --enable-features=PasswordImport",
		"rsync -a host:/x@y /z",
		"zfs send pool/data@snap1",
		"systemctl start user@1000.service",
		"htpasswd -B /etc/users bob",
		"htpasswd -c users bob",
		"rabbitmqctl list_users",
		"rabbitmqctl set_permissions bob .* .* .*",
		"nmcli con up home",
		"vault read secret/data/x",
		"net ads info",
		"mount -t nfs host:/x /mnt",
		"sqlplus / as sysdba",
	} {
		if got := CommandLine(strings.Split(line, " ")); got != line {
			t.Errorf("CommandLine changed what holds no secret\n got %s\nwant %s", got, line)
		}
		if got := Text(line); got != line {
			t.Errorf("Text changed what holds no secret\n got %s\nwant %s", got, line)
		}
	}
}

func TestLabel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, want string }{
		{"com.example.password", hush, Mark},
		{"traefik.http.middlewares.auth.basicauth.users", "bob:x", "bob:x"},
		{"maintainer", "someone", "someone"},
		{"db.url", "postgres://u:" + hush + "@db/x", "postgres://u:" + Mark + "@db/x"},
		{"image.version", "1.2", "1.2"},
	} {
		if got := Label(c.name, c.value); got != c.want {
			t.Errorf("Label(%q, %q) = %q, want %q", c.name, c.value, got, c.want)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"mysql -px y", "a --password b", "https://u:p@h/", `x "TOKEN=a b" 'c`, "Authorization: Basic Zm9v", "curl -u a:b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := Text(s)
		if twice := Text(once); strings.Count(twice, Mark) < strings.Count(once, Mark) {
			t.Fatalf("%q became %q and then %q", s, once, twice)
		}
		CommandLine(strings.Fields(s))
		// A plain word behind --password never survives.
		if got := CommandLine([]string{"x", "--password", hush}); strings.Contains(got, hush) {
			t.Fatal(got)
		}
	})
}

func BenchmarkCommandLine(b *testing.B) {
	plain := []string{"/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus", "-quiet", "-imultiarch", "x86_64-linux-gnu", "-D_GNU_SOURCE", "source.cc"}
	long := strings.Fields(strings.Repeat("-Dname.of.a.property=value /usr/share/java/library-1.2.3.jar ", 64) + "--password x")
	for name, args := range map[string][]string{"plain": plain, "4 KiB with a secret": long} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				CommandLine(args)
			}
		})
	}
}
