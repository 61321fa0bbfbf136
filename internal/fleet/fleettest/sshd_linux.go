package fleettest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"topside/internal/fleet/ssh"
)

// Server is a running sshd.
type Server struct {
	Dir    string // of everything
	Home   string // of the user on the far side
	Bin    string // first on the far side's PATH
	Addr   string
	Port   string
	Config string // of the client
	Client ssh.Client

	cmd *exec.Cmd
}

// Options of a Server.
type Options struct {
	Listen string   // address; 127.0.0.1 if empty
	Netns  string   // network namespace that sshd runs in
	Sshd   []string // more lines for its configuration
	Hosts  []string // names that the client's configuration has for it; "far" if empty
	// Programs are put on the far side's PATH: name to a file that is linked to, or, if
	// it begins with "#!", to a script.
	Programs map[string]string
}

// Start runs sshd. It fails the test where that cannot be done.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	sshd := lookSshd(t)
	dir, err := os.MkdirTemp("/tmp", "fleet-")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &Server{Dir: dir, Home: filepath.Join(dir, "home"), Bin: filepath.Join(dir, "bin"), Config: filepath.Join(dir, "client")}
	for _, d := range []string{s.Home, s.Bin} {
		check(t, os.Mkdir(d, 0o700))
	}
	for name, program := range o.Programs {
		s.Install(t, name, program)
	}
	for _, key := range []string{"host", "user"} {
		out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key)).CombinedOutput()
		if err != nil {
			t.Fatalf("ssh-keygen: %v: %s", err, out)
		}
	}
	listen := o.Listen
	if listen == "" {
		listen = "127.0.0.1"
	}
	s.Port = freePort(t)
	s.Addr = net.JoinHostPort(listen, s.Port)
	s.writeConfigs(t, o, listen)
	s.run(t, sshd, o.Netns)
	t.Cleanup(s.Stop)
	return s
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func lookSshd(t testing.TB) string {
	t.Helper()
	for _, p := range []string{"/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"} {
		if _, err := os.Stat(p); err == nil {
			if os.Geteuid() == 0 {
				check(t, os.MkdirAll("/run/sshd", 0o755))
			}
			return p
		}
	}
	t.Fatal("sshd is missing: install openssh-server (test/install does)")
	return ""
}

// sftpServer is the one that distributions configure, where it is.
func sftpServer() string {
	for _, p := range []string{"/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server"} {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	return "internal-sftp"
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	check(t, err)
	return port
}

// Install puts a program on the far side's PATH.
func (s *Server) Install(t testing.TB, name, program string) {
	t.Helper()
	at := filepath.Join(s.Bin, name)
	if strings.HasPrefix(program, "#!") {
		check(t, os.WriteFile(at, []byte(program), 0o755))
		return
	}
	check(t, os.Symlink(program, at))
}

func (s *Server) writeConfigs(t testing.TB, o Options, listen string) {
	t.Helper()
	in := func(name string) string { return filepath.Join(s.Dir, name) }
	pub, err := os.ReadFile(in("user.pub"))
	check(t, err)
	check(t, os.WriteFile(in("authorized"), pub, 0o600))
	hostKey, err := os.ReadFile(in("host.pub"))
	check(t, err)
	me, err := user.Current()
	check(t, err)
	server := []string{
		"ListenAddress " + listen, "Port " + s.Port, "HostKey " + in("host"), "AuthorizedKeysFile " + in("authorized"),
		"PidFile none", "StrictModes no", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
		"PermitRootLogin yes", "AllowStreamLocalForwarding yes", "Subsystem sftp " + sftpServer(), "MaxStartups 200:30:400", "MaxSessions 200",
		"UsePAM no", "PrintMotd no", "LogLevel ERROR",
		fmt.Sprintf("SetEnv HOME=%s PATH=%s:/usr/local/bin:/usr/bin:/bin FLEETTEST=1", s.Home, s.Bin),
	}
	server = append(server, o.Sshd...)
	check(t, os.WriteFile(in("server"), []byte(strings.Join(server, "\n")+"\n"), 0o600))
	hosts := o.Hosts
	if len(hosts) == 0 {
		hosts = []string{"far"}
	}
	check(t, os.WriteFile(in("known"), []byte(fmt.Sprintf("[%s]:%s %s", listen, s.Port, hostKey)), 0o600))
	client := []string{
		"Host " + strings.Join(hosts, " "), "  HostName " + listen, "  Port " + s.Port, "  User " + me.Username,
		"  IdentityFile " + in("user"), "  IdentitiesOnly yes", "  IdentityAgent none", "  UserKnownHostsFile " + in("known"),
		"  GlobalKnownHostsFile /dev/null", "  StrictHostKeyChecking yes",
	}
	check(t, os.WriteFile(s.Config, []byte(strings.Join(client, "\n")+"\n"), 0o600))
	s.Client = ssh.Client{Config: s.Config}
}

func (s *Server) run(t testing.TB, sshd, netns string) {
	t.Helper()
	args := []string{sshd, "-D", "-e", "-f", filepath.Join(s.Dir, "server")}
	if netns != "" {
		args = append([]string{"ip", "netns", "exec", netns}, args...)
	}
	log, err := os.Create(filepath.Join(s.Dir, "sshd.log"))
	check(t, err)
	defer log.Close()
	s.cmd = exec.Command(args[0], args[1:]...)
	s.cmd.Stderr = log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check(t, s.cmd.Start())
	deadline := time.Now().Add(10 * time.Second)
	for {
		if c, err := net.DialTimeout("tcp", s.Addr, time.Second); err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("sshd does not listen on %s: %s", s.Addr, text)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Stop ends sshd and every process whose environment shows that it was started for
// this server, daemons included.
func (s *Server) Stop() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		_ = s.cmd.Wait()
	}
	for _, pid := range s.Processes("") {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// Pid is the process id of the listening sshd.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Processes lists the processes on the far side that were started through this
// sshd and whose command line holds text.
func (s *Server) Processes(text string) []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var out []int
	for _, d := range dirs {
		env, err := os.ReadFile(filepath.Join(d, "environ"))
		if err != nil || !strings.Contains("\x00"+string(env), "\x00HOME="+s.Home+"\x00") {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(d, "cmdline"))
		if len(command) == 0 || !strings.Contains(strings.ReplaceAll(string(command), "\x00", " "), text) {
			continue
		}
		var pid int
		if _, err := fmt.Sscan(filepath.Base(d), &pid); err == nil && pid != os.Getpid() {
			out = append(out, pid)
		}
	}
	return out
}

// Sessions lists the sshd processes that serve connections: the descendants of the
// listening one.
func (s *Server) Sessions() []int {
	parents := map[int]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		stat, err := os.ReadFile(filepath.Join(d, "stat"))
		if err != nil {
			continue
		}
		text := string(stat)
		var pid, parent int
		var state string
		if _, err := fmt.Sscan(text, &pid); err != nil {
			continue
		}
		if _, err := fmt.Sscan(text[strings.LastIndexByte(text, ')')+1:], &state, &parent); err == nil && state != "Z" && strings.Contains(text, "(sshd") {
			parents[pid] = parent
		}
	}
	var out []int
	for pid := range parents {
		for at, ok := pid, true; ok; at, ok = parents[at], parents[at] != 0 {
			if parents[at] == s.Pid() {
				out = append(out, pid)
				break
			}
		}
	}
	return out
}

// Eventually waits until ok, at most d.
func Eventually(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(d)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", d, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
