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
		"app --password [redacted] --user bob":                      {"app", "--password", hush, "--user", "bob"},
		"app --password=[redacted] x":                               {"app", "--password=" + hush, "x"},
		"app -password [redacted]":                                  {"app", "-password", "two words " + hush},
		"app --db-pwd [redacted]":                                   {"app", "--db-pwd", hush},
		"env API_TOKEN=[redacted] run":                              {"env", "API_TOKEN=" + hush, "run"},
		"env SECRET_KEY_BASE=[redacted] run":                        {"env", "SECRET_KEY_BASE=" + hush, "run"},
		"env X_PASSWORD=[redacted]":                                 {"env", "X_PASSWORD=one two " + hush},
		"java -Dspring.datasource.password=[redacted]":              {"java", "-Dspring.datasource.password=" + hush},
		"app --dbPassword=[redacted] --APIKey=[redacted]":           {"app", "--dbPassword=" + hush, "--APIKey=" + hush},
		"mysql -uroot -p[redacted] shop":                            {"mysql", "-uroot", "-p" + hush, "shop"},
		"sudo /usr/bin/mysqldump -p[redacted] --all":                {"sudo", "/usr/bin/mysqldump", "-p" + hush, "--all"},
		"sshpass -p [redacted] ssh host":                            {"sshpass", "-p", hush, "ssh", "host"},
		"curl -u bob:[redacted] http://x/":                          {"curl", "-u", "bob:" + hush, "http://x/"},
		"curl -ubob:[redacted] --user=bob:[redacted]":               {"curl", "-ubob:" + hush, "--user=bob:" + hush},
		"curl --proxy-user bob:[redacted]":                          {"curl", "--proxy-user", "bob:" + hush},
		"curl -H Authorization: Bearer [redacted] http://x/":        {"curl", "-H", "Authorization: Bearer " + hush, "http://x/"},
		"curl -H authorization: [redacted] http://x/":               {"curl", "-H", "authorization: " + hush, "http://x/"},
		"curl -H X-Api-Key: [redacted]":                             {"curl", "-H", "X-Api-Key: " + hush},
		"curl -H Cookie: [redacted]":                                {"curl", "-H", "Cookie: a=b; session=" + hush},
		"git clone https://bob:[redacted]@example.org/x.git":        {"git", "clone", "https://bob:" + hush + "@example.org/x.git"},
		"app postgres://u:[redacted]@db:5432/x":                     {"app", "postgres://u:p/a@" + hush + "@db:5432/x"},
		"get https://x/?access_token=[redacted]&page=2":             {"get", "https://x/?access_token=" + hush + "&page=2"},
		"sh -c mysql -p[redacted] < dump && curl -u a:[redacted] x": {"sh", "-c", "mysql -p" + hush + " < dump && curl -u a:" + hush + " x"},
		"sh -c TOKEN=[redacted] run --password '[redacted]' x":      {"sh", "-c", "TOKEN=" + hush + " run --password '" + hush + " b' x"},
		"sqlcmd -P [redacted] -S host":                              {"sqlcmd", "-P", hush, "-S", "host"},
		"app Server=db;User=sa;Password=[redacted];Timeout=3":       {"app", "Server=db;User=sa;Password=" + hush + ";Timeout=3"},
		`app {"user":"a","password":"[redacted]","n":1}`:            {"app", `{"user":"a","password":"` + hush + `","n":1}`},
		"openssl enc -passin pass:[redacted]":                       {"openssl", "enc", "-passin", "pass:" + hush},
		"docker login -u bob -p [redacted] reg":                     {"docker", "login", "-u", "bob", "-p", hush, "reg"},
		"redis-cli -a [redacted] ping":                              {"redis-cli", "-a", hush, "ping"},
		"ldapsearch -w [redacted] -b dc=x":                          {"ldapsearch", "-w", hush, "-b", "dc=x"},
		"smbclient //h/s -U bob%[redacted]":                         {"smbclient", "//h/s", "-U", "bob%" + hush},
		"npm --//registry/:_authToken=[redacted]":                   {"npm", "--//registry/:_authToken=" + hush},
		"x [redacted] y":                                            {"x", "AKIAIOSFODNN7EXAMPLE", "y"},
		"x [redacted] z":                                            {"x", "ghp_abcdefghijklmnopqrstuvwxyz0123456789", "z"},
		"x https://[redacted]@github.com/a":                         {"x", "https://ghp_abcdefghijklmnopqrstuvwxyz0123456789@github.com/a"},
		"x [redacted] s":                                            {"x", "xoxb-123456789012-abcdefghijkl", "s"},
		"x [redacted] j":                                            {"x", "eyJhbGciOiJIUzI1.eyJzdWIiOiIx.abc-DEF", "j"},
		"x [redacted] k":                                            {"x", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "k"},
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
