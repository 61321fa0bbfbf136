//go:build linux

package fleet

// The scripts of the topup contract's remote half, with the real binary on both
// sides. Those in testdata/topup reach hosts through the sockets that variables name;
// those in testdata/ssh run twice over a real sshd, with hosts that have topside and
// hosts that have nothing but a program called topup. Commands, beside those of
// testscript:
//
//	far NAME FORM       starts a host: FORM is topside, topup, javascript (a topside
//	                    without OCaml) or none; its home is $NAME
//	peer SOCKET         runs topup --socket SOCKET with a home of its own, $PEER
//	mute SOCKET         listens on a socket, accepts, and says nothing
//	front NAME ARG…     runs topup with the script's environment
//	[!] call NAME TOOL ARGUMENTS   calls a tool and prints its text; ! wants isError
//	begin NAME TAG TOOL ARGUMENTS  sends a call
//	[!] finish TAG      waits for it
//	pending TAG         it has not been answered
//	notify NAME METHOD PARAMS
//	instructions NAME   prints the instructions of initialize
//	end NAME            closes the input: it must end soon, with status 0
//	within SECONDS COMMAND…  runs a command that must not take longer
//	pause MILLISECONDS
//	capture NAME RE     sets a variable to the part of the last output that matches
//	mode OCTAL PATH     the permissions of a file
//	alone [NAME]        nothing that the script started on a host is left, soon

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"topside/internal/fleet/fleettest"
	"topside/test/bed"
)

func TestTopupScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "testdata/topup", "")
}

func TestTopupOverSSH(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"topside", "topup"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			runScripts(t, "testdata/ssh", form)
		})
	}
}

type playKey struct{}

// A play is what one script has started.
type play struct {
	tb     testing.TB
	hosts  map[string]*fleettest.Server
	fronts map[string]*topup
	begun  map[string]begun
}

type begun struct {
	front *topup
	id    string
}

func runScripts(t *testing.T, dir, form string) {
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			p := &play{e.T().(testing.TB), map[string]*fleettest.Server{}, map[string]*topup{}, map[string]begun{}}
			e.Values[playKey{}] = p
			bin := filepath.Join(e.WorkDir, ".bin")
			if err := os.Mkdir(bin, 0o755); err != nil {
				return err
			}
			ssh := "#!/bin/sh\nexec /usr/bin/ssh -F " + filepath.Join(e.WorkDir, ".ssh_config") + " \"$@\"\n"
			if err := os.WriteFile(filepath.Join(bin, "ssh"), []byte(ssh), 0o755); err != nil {
				return err
			}
			config, err := sshConfig()
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(e.WorkDir, ".ssh_config"), []byte(config), 0o600); err != nil {
				return err
			}
			program, err := named("topup")
			if err != nil {
				return err
			}
			if err := os.Symlink(program, filepath.Join(bin, "topup")); err != nil {
				return err
			}
			home := filepath.Join(e.WorkDir, "home")
			if err := os.MkdirAll(home, 0o700); err != nil {
				return err
			}
			// Sockets need short paths.
			short, err := os.MkdirTemp("/tmp", "tu")
			if err != nil {
				return err
			}
			e.Defer(func() { os.RemoveAll(short) })
			e.Vars = append(e.Vars, "HOME="+home, "XDG_CACHE_HOME="+cache(), "SHORT="+short, "FORM="+form,
				"PATH="+bin+":"+os.Getenv("PATH"), "TOPSIDE_TEST_RUN="+os.Getenv("TOPSIDE_TEST_RUN"))
			e.Defer(func() {
				for _, f := range p.fronts {
					f.kill()
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"far": far, "peer": peer, "mute": mute, "front": front, "call": call, "begin": begin, "finish": finish, "notify": notify,
			"instructions": instructions, "end": end, "within": within, "pending": pending, "pause": pause, "capture": capture, "mode": mode, "alone": alone,
		},
	})
}

// sshConfig has hosts that nobody reaches: "refused".
func sshConfig() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return fmt.Sprintf("Host refused\n  HostName 127.0.0.1\n  Port %d\n", l.Addr().(*net.TCPAddr).Port), nil
}

func playOf(ts *testscript.TestScript) *play { return ts.Value(playKey{}).(*play) }

func usage(ts *testscript.TestScript, ok bool) {
	if !ok {
		ts.Fatalf("wrong use of a command")
	}
}

// farPrograms are what a host has on its PATH.
func farPrograms(form string) (map[string]string, error) {
	if form == "none" {
		return nil, nil
	}
	program, err := named(form)
	script := fmt.Sprintf("#!/bin/sh\nXDG_CACHE_HOME=%s; export XDG_CACHE_HOME; exec %s \"$@\"\n", cache(), program)
	return map[string]string{form: script}, err
}

// startHost runs an sshd for a name and adds it to the client's configuration.
func startHost(tb testing.TB, config, name, form string) *fleettest.Server {
	tb.Helper()
	programs, err := farPrograms(form)
	if err != nil {
		tb.Fatal(err)
	}
	s := fleettest.Start(tb, fleettest.Options{Hosts: []string{name}, Programs: programs})
	text, err := os.ReadFile(s.Config)
	if err != nil {
		tb.Fatal(err)
	}
	f, err := os.OpenFile(config, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		tb.Fatal(err)
	}
	return s
}

func far(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2)
	p := playOf(ts)
	config := ts.Getenv("WORK") + "/.ssh_config"
	s := startHost(p.tb, config, args[0], args[1])
	p.hosts[args[0]] = s
	if args[0] == "box" {
		ts.Check(estrange(s, config))
	}
	ts.Setenv(strings.ToUpper(args[0]), p.hosts[args[0]].Home)
}

// estrange adds names for a host that do not work: "stranger", whose key is not
// known, "changed", which was known by another key, and "denied", which gets the wrong
// key.
func estrange(s *fleettest.Server, config string) error {
	text, err := os.ReadFile(s.Config)
	if err != nil {
		return err
	}
	key := filepath.Join(s.Dir, "wrong")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		return fmt.Errorf("ssh-keygen: %w: %s", err, out)
	}
	_, body, _ := strings.Cut(string(text), "\n")
	stranger := strings.ReplaceAll(body, filepath.Join(s.Dir, "known"), "/dev/null")
	denied := strings.ReplaceAll(body, "IdentityFile "+filepath.Join(s.Dir, "user"), "IdentityFile "+key)
	other, err := os.ReadFile(key + ".pub")
	if err != nil {
		return err
	}
	known := filepath.Join(s.Dir, "known-otherwise")
	if err := os.WriteFile(known, []byte("[127.0.0.1]:"+s.Port+" "+string(other)), 0o600); err != nil {
		return err
	}
	changed := strings.ReplaceAll(body, filepath.Join(s.Dir, "known"), known)
	f, err := os.OpenFile(config, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString("Host stranger\n" + stranger + "Host changed\n" + changed + "Host denied\n" + denied)
	return err
}

func peer(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1)
	home := ts.MkAbs("peer")
	ts.Check(os.MkdirAll(home, 0o700))
	ts.Setenv("PEER", home)
	program, err := named("topup")
	ts.Check(err)
	c := exec.Command(program, "--socket", args[0])
	c.Env = nearSide(home)
	c.Dir = home
	ts.Check(c.Start())
	ts.Defer(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
	})
	awaitFile(ts, args[0])
}

func awaitFile(ts *testscript.TestScript, path string) {
	for deadline := time.Now().Add(bed.Patience); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Lstat(path); err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s does not come", path)
		}
	}
}

func mute(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1)
	l, err := net.Listen("unix", args[0])
	ts.Check(err)
	ctx, stop := context.WithCancel(context.Background())
	ts.Defer(func() {
		stop()
		l.Close()
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { c.Close() })
		}
	}()
}

func front(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 1)
	var env []string
	for _, name := range []string{"HOME", "PATH", "XDG_CACHE_HOME", "TOPSIDE_TEST_RUN", "TMPDIR"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	rest := args[1:]
	for len(rest) > 0 && strings.Contains(rest[0], "=") {
		env, rest = append(env, rest[0]), rest[1:]
	}
	f, err := runTopup(env, rest...)
	ts.Check(err)
	playOf(ts).fronts[args[0]] = f
}

func frontOf(ts *testscript.TestScript, name string) *topup {
	f := playOf(ts).fronts[name]
	usage(ts, f != nil)
	return f
}

func call(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 3)
	begin(ts, false, []string{args[0], "call", args[1], args[2]})
	finish(ts, neg, []string{"call"})
}

func begin(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 4)
	f := frontOf(ts, args[0])
	id, err := f.beginTool(args[2], rawJSON(args[3]))
	ts.Check(err)
	playOf(ts).begun[args[1]] = begun{f, id}
}

// rawJSON is JSON as the script has it.
type rawJSON string

func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

func finish(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 1)
	b := playOf(ts).begun[args[0]]
	text, isError, err := b.front.finish(b.id)
	ts.Check(err)
	fmt.Fprintln(ts.Stdout(), text)
	if isError != neg {
		ts.Fatalf("isError is %v: %s", isError, text)
	}
}

func pending(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1)
	b := playOf(ts).begun[args[0]]
	usage(ts, b.front != nil)
	if len(b.front.channel(b.id)) > 0 {
		ts.Fatalf("%s has been answered", args[0])
	}
}

func notify(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 3)
	ts.Check(frontOf(ts, args[0]).notify(args[1], rawJSON(args[2])))
}

func instructions(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1)
	text, err := frontOf(ts, args[0]).instructions()
	ts.Check(err)
	fmt.Fprintln(ts.Stdout(), text)
}

func end(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1)
	status, err := frontOf(ts, args[0]).end(bed.Patience)
	ts.Check(err)
	if status != 0 {
		ts.Fatalf("status %d; stderr: %s", status, frontOf(ts, args[0]).said.String())
	}
}

func within(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) >= 2)
	seconds, err := strconv.ParseFloat(args[0], 64)
	ts.Check(err)
	commands := map[string]func(*testscript.TestScript, bool, []string){"call": call, "finish": finish, "end": end}
	usage(ts, commands[args[1]] != nil)
	began := time.Now()
	commands[args[1]](ts, neg, args[2:])
	if took := time.Since(began); took.Seconds() > seconds {
		ts.Fatalf("it took %v", took)
	}
}

func pause(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1)
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	time.Sleep(time.Duration(n) * time.Millisecond)
}

func capture(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2)
	found := regexp.MustCompile(args[1]).FindString(ts.ReadFile("stdout"))
	if found == "" {
		ts.Fatalf("no match of %s", args[1])
	}
	ts.Setenv(args[0], found)
}

func mode(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2)
	info, err := os.Lstat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s", args[1], got)
	}
}

func alone(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) <= 1)
	p := playOf(ts)
	for name, s := range p.hosts {
		if len(args) == 0 || args[0] == name {
			fleettest.Eventually(p.tb, 10*time.Second, "nothing is left on "+name, func() bool { return len(s.Processes("")) == 0 })
		}
	}
}
