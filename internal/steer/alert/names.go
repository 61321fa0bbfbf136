package alert

// This file says what programs are, by the base names of their executables.
// A name classifies: it decides which evidence is looked for, or which
// innocent explanation is possible. It never convicts alone.

import (
	"path"
	"strings"
)

// A class is a set of kinds of programs.
type class uint32

const (
	shell class = 1 << iota
	interpreter
	downloader
	netcat
	browser
	builder         // compilers, build tools, test runners, package managers, CI runners
	textTool        // its arguments are text: a match in them means nothing
	server          // a network service that runs others' input
	debugger        // traces processes as its job
	elevator        // changes the user as its job
	jit             // makes code at run time as its job
	terminal        // a terminal emulator
	scheduler       // starts commands for users: cron, at, sshd
	containerEngine // a container engine or its shim
)

var classOf = map[string]class{}

func init() {
	for c, names := range map[class]string{
		shell:       "sh bash dash zsh ksh ksh93 mksh ash fish tcsh csh rbash busybox",
		interpreter: "python perl ruby node nodejs php lua tclsh deno bun pwsh",
		downloader:  "curl wget fetch aria2c axel lwp-download GET",
		netcat:      "nc ncat netcat nc.openbsd nc.traditional socat telnet openssl cryptcat",
		browser:     "chrome chromium chromium-browser google-chrome firefox firefox-bin firefox-esr brave brave-browser opera vivaldi-bin vivaldi msedge microsoft-edge librewolf epiphany safari Safari chrome-headless-shell headless_shell",
		builder: "go gopls cargo rustc rustup make gmake ninja cmake ctest meson bazel bazelisk buck2 gradle mvn ant scons waf gcc g++ cc c++ cc1 cc1plus clang clang++ collect2 ld lld as javac kotlinc scala sbt dune ocaml opam ghc cabal stack " +
			"npm npx yarn pnpm gyp node-gyp webpack gulp grunt conan tsc jest vitest mocha pytest tox nox pip pipx uv poetry conda mamba autoconf configure libtool " +
			"dpkg dpkg-deb dpkg-buildpackage apt apt-get aptitude rpm rpmbuild dnf yum zypper pacman makepkg apk snapd flatpak-builder unattended-upgrade unattended-upgr debuild sbuild pbuilder nix nix-daemon nix-build guix guix-daemon mock debootstrap update-initramfs mkinitramfs dracut " +
			"Runner.Listener Runner.Worker runsvc.sh gitlab-runner gitlab-runner-helper buildkite-agent drone-runner-docker woodpecker-agent circleci-agent agent.jar teamcity-agent act act_runner buildkitd buildkit-runc ccache sccache distcc distccd icecc iceccd git git-remote-https prove tcltest runtest rr staticcheck golangci-lint pre-commit ansible ansible-playbook packer terraform vagrant",
		textTool:        "grep egrep fgrep rg ag ack sed awk gawk mawk less more most cat bat head tail vi vim nvim emacs nano micro code helix hx kak ed tee echo printf man journalctl git diff jq find locate xdg-open ps pgrep pkill strings",
		server:          "nginx apache2 httpd lighttpd caddy haproxy php-fpm php-cgi tomcat postgres mysqld mariadbd redis-server memcached mongod exim4 exim sendmail master named vsftpd proftpd smbd dovecot java gunicorn uwsgi puma unicorn",
		debugger:        "gdb lldb lldb-server strace ltrace rr dlv delve perf bpftrace valgrind criu gdbserver gcore reptyr heaptrack uftrace systemd-coredump",
		elevator:        "sudo su doas pkexec login sshd sshd-session cron crond atd run0 newgrp sg runuser setpriv chpst s6-setuidgid gosu su-exec start-stop-daemon",
		jit:             "node nodejs java javaw firefox firefox-bin firefox-esr chrome chromium gjs gjs-console polkitd dotnet mono php php-fpm luajit deno bun julia qemu wine wine64 wineserver ruby pypy gnome-shell plasmashell cinnamon WebKitWebProcess thunderbird electron postgres topside erl beam.smp sbcl guile racket swipl gforth chez ocamlnat box64 rosetta",
		terminal:        "xterm uxterm rxvt urxvt gnome-terminal gnome-terminal-server konsole alacritty kitty wezterm foot st terminator tilix xfce4-terminal lxterminal",
		scheduler:       "cron crond atd anacron sshd sshd-session systemd-cron fcron login",
		containerEngine: "dockerd containerd containerd-shim containerd-shim-runc-v2 runc crun youki podman conmon crio docker docker-proxy docker-init tini catatonit lxc-start lxcfs systemd-nspawn kubelet nerdctl buildkitd",
	} {
		for name := range strings.FieldsSeq(names) {
			classOf[name] |= c
		}
	}
	for name := range strings.FieldsSeq("qemu-system-x86_64 qemu-system-aarch64 qemu-x86_64 qemu-aarch64") {
		classOf[name] |= jit
	}
}

// classify tells what a program is by the base name of its executable, without
// a version at its end: python3.11 is python, php-fpm8.2 is php-fpm.
func classify(name string) class {
	if c, ok := classOf[name]; ok {
		return c
	}
	if unversioned := strings.TrimRight(name, "0123456789.-"); unversioned != name && unversioned != "" {
		return classOf[unversioned]
	}
	return 0
}

// scriptClass tells what an interpreter becomes by what it runs: pytest is a
// test runner though its executable is python, and so is Gradle's java. A script
// in a temporary folder makes nothing of it.
func scriptClass(name string, args []string) class {
	if strings.HasPrefix(name, "java") {
		for _, a := range args {
			for _, tool := range []string{"org.gradle", "hudson.remoting", "plexus.classworlds", "surefire", "agent.jar", "remoting.jar", "bazel"} {
				if strings.Contains(a, tool) {
					return builder
				}
			}
		}
		return 0
	}
	if classify(name)&interpreter == 0 {
		return 0
	}
	if len(args) > 2 && args[1] == "-m" {
		return classify(args[2]) & builder
	}
	script := scriptOf(args)
	if script == "" || hasPrefix(script, temporaryFolders) {
		return 0
	}
	base := path.Base(script)
	base = strings.TrimSuffix(base, path.Ext(base))
	return classify(strings.TrimSuffix(base, "-cli")) & builder
}

// program is the base name that a process is classified by: its executable's,
// the applet's for a multi-call binary, and the kernel's name where the
// executable is unknown.
func program(comm, executable string, args []string) string {
	base := path.Base(executable)
	switch {
	case executable == "":
		base = comm
	case (base == "busybox" || base == "toybox" || base == "coreutils") && len(args) > 0:
		applet := strings.TrimPrefix(path.Base(args[0]), "-")
		if applet == base && len(args) > 1 {
			applet = args[1]
		}
		return applet
	}
	return base
}

// systemNames are daemons that others like to be taken for.
var systemNames = set("svchost lsass launchd sshd systemd init systemd-journald systemd-logind systemd-udevd systemd-resolved systemd-networkd systemd-timesyncd dbus-daemon cron crond rsyslogd agetty login udevd NetworkManager polkitd auditd")

// kernelNames begin the names of kernel threads.
var kernelNames = []string{"kworker", "kthreadd", "ksoftirqd", "kswapd", "migration/", "rcu_", "kdevtmpfs", "khugepaged", "kcompactd", "watchdogd", "irq/", "scsi_", "jbd2/", "kauditd", "khungtaskd", "kintegrityd", "kblockd", "cpuhp/", "idle_inject/", "oom_reaper", "writeback", "ksmd", "netns", "edac-poller", "kstrp", "xfsaild", "nfsd", "kpsmoused", "md0_raid"}

// setuidNames are programs that packages ship setuid or setgid.
var setuidNames = set("sudo su doas pkexec passwd chsh chfn chage expiry gpasswd newgrp sg mount umount fusermount fusermount3 ping ping6 newuidmap newgidmap ssh-keysign unix_chkpwd dbus-daemon-launch-helper chrome-sandbox chrome_sandbox Xorg Xorg.wrap exim4 exim sendmail postdrop postqueue crontab at wall write ntfs-3g mount.nfs mount.cifs polkit-agent-helper-1 snap-confine bwrap suexec su-exec vmware-user-suid-wrapper VBoxHeadless VirtualBoxVM lockdev utempter pam_extrausers_chkpwd ssh-agent procmail dotlockfile mlocate plocate traceroute mtr-packet kismet_capture dumpcap pppd unix_update userhelper usernetctl spice-client-glib-usb-acl-helper mount.ecryptfs_private pam_timestamp_check grub2-set-bootflag s-nail screen screen-5")

// minerNames are names of mining programs and of malware families that mine
// (the xtop contract's list, without the names of ordinary programs).
var minerNames = set("minerd cpuminer cpu_miner cpuminer-multi xmrig xmrig-nvidia xmrig-amd xmrig-cuda xmr-stak xmr-stak-cpu xmrigDaemon xmrigMiner kdevtmpfsi kinsing diagree watchbog crond64 moneroocean ethminer nbminer t-rex lolminer phoenixminer ccminer cgminer bfgminer gminer teamredminer srbminer-multi nanominer")

// ambiguousNames are in the contract's list and are also the names of ordinary
// programs: they count only where no package owns the executable and it does
// not lie where an administrator installs programs.
var ambiguousNames = set("mkfile sysguard sysupdate")

// poolHosts are parts of the host names of mining pools.
var poolHosts = []string{"pool.monero", "pool.supportxmr", "mine.monero", "supportxmr.com", "moneroocean.stream", "nanopool.org", "minexmr.com", "hashvault.pro", "2miners.com", "f2pool.com", "nicehash.com", "herominers.com", "unmineable.com", "c3pool.com", "xmrpool.eu", "ethermine.org", "dwarfpool.com", "minergate.com"}

// poolPorts are ports that pools listen at and little else does.
var poolPorts = map[uint16]bool{3333: true, 3334: true, 4444: true, 5555: true, 5556: true, 7777: true, 8333: false, 9999: true, 10001: true, 10032: true, 10128: true, 10343: true, 13333: true, 14433: true, 14444: true, 20128: true, 45700: true, 45560: true}

func set(names string) map[string]bool {
	out := map[string]bool{}
	for name := range strings.FieldsSeq(names) {
		out[name] = true
	}
	return out
}
