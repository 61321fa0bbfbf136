package alert

// suspicious_pipe_or_download (R7): code that arrives over the network and is
// run at once, and shells whose user sits at the other end of a connection.

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

const rulePipe = "suspicious_pipe_or_download"

var suspiciousPipe = Rule{
	Name:       rulePipe,
	Severities: []Severity{Critical, Warning, Info},
	Asks:       "Does a shell or an interpreter run what a download hands it, or take its commands from the network?",
	Evidence:   "Descriptors: a shell's standard input is a pipe that curl, wget or a network cat writes into; a shell's input or output is an internet socket of another machine (a reverse shell), or it holds one for longer than a check takes, or a network cat that has one started it; a shell whose input and output are one connection within this machine, of which no ancestor holds the other end (Warning: a tunnel may lead to it); an interpreter reads its program from a memfd. Arguments of a shell's or interpreter's own -c: a download or a base64 decoder that is piped into a shell, an eval of a download, Python that ties a socket to its standard streams.",
	Silent:     "Texts in the arguments of other programs, and quoted texts, which are data; downloads that are piped into a program that has its commands in its arguments (python -m json.tool, perl -ne); sockets between a shell and an ancestor on the same machine, which node, systemd and IDEs give to their children; image builds, builds and CI runners, where downloads that are piped into a shell are Info. A shell at the end of a connection is Critical whoever started it.",
	Limits:     "A download that is over before a snapshot leaves a pipe without a writer. A terminal of its own between the socket and the shell is seen only where an interpreter or a network cat holds both. Steps on their own (download, chmod, run) are left to suspicious_exe_path.",
	static:     judgeCommand,
	watches:    func(s *subject) bool { return s.is(shell|interpreter) && takesInput(s) },
	dynamic:    judgeStreams,
}

// takesInput reports whether the program's commands may come over its input.
func takesInput(s *subject) bool {
	script := scriptOf(s.args())
	return script == "" || strings.HasPrefix(script, "/dev/fd/") || strings.HasPrefix(script, "/proc/")
}

// judgeStreams looks at what a shell or interpreter is connected to. Its
// streams are set before it starts, so that they are read while it is young
// and then now and again.
func judgeStreams(s *subject) *Finding {
	const youth, every = 12, 16
	if s.number-s.born > youth && (s.number+uint64(s.p.PID))%every != 0 {
		return s.held
	}
	s.held = s.streams()
	return s.held
}

func (s *subject) streams() *Finding {
	if f := s.reverse(); f != nil {
		return f
	}
	if f := s.behindNetcat(); f != nil {
		return f
	}
	if f := s.holdsConnection(); f != nil {
		return f
	}
	if s.inlineCode() {
		return nil // its input is data
	}
	for _, d := range s.inputs() {
		if strings.Contains(d.Target, "memfd:") {
			return s.say(rulePipe, Critical, "command matches pipe/download pattern: %s", first(s.args())).
				because(fmt.Sprintf("it reads its program from memory: descriptor %d is %s", d.Number, d.Target), s.lineage()).
				then("the content of that descriptor", s.tree())
		}
		inode, ok := inodeOf(d.Target, "pipe:[")
		if !ok {
			continue
		}
		if from := s.writer(inode); from != nil {
			return s.partOfCommand(s.excuse(s.say(rulePipe, Critical, "command matches pipe/download pattern: %s", first(s.args())).
				because(fmt.Sprintf("%s (%d) writes into the pipe that %s reads its commands from", from.comm(), from.p.PID, s.comm()),
					from.command(), s.lineage()).
				then("what the download was", s.tree())))
		}
	}
	return nil
}

// inlineCode reports whether the commands are in the arguments: sh -c,
// python -c and -m, perl -ne, node -e, php -r.
func (s *subject) inlineCode() bool {
	letters := "eErpnR"
	switch {
	case s.is(shell):
		letters = "c"
	case strings.HasPrefix(stem(s.executable()), "py"):
		letters = "cm"
	}
	for _, a := range s.args()[min(1, len(s.args())):] {
		switch {
		case a == "--eval", a == "--print":
			return true
		case !strings.HasPrefix(a, "-") || a == "-" || a == "--":
			return false
		case !strings.HasPrefix(a, "--") && strings.ContainsAny(a, letters):
			return true
		}
	}
	return false
}

// inputs are the descriptors that commands are read from: standard input, and
// the descriptor that is named as the script.
func (s *subject) inputs() []Descriptor {
	number := 0
	if script := scriptOf(s.args()); script != "" {
		if _, err := fmt.Sscanf(script[strings.LastIndexByte(script, '/')+1:], "%d", &number); err != nil {
			return nil
		}
	}
	for _, d := range s.descriptors() {
		if d.Number == number {
			return []Descriptor{d}
		}
	}
	return nil
}

// reverse looks for internet sockets of other machines among the standard
// streams.
func (s *subject) reverse() *Finding {
	for number := range 2 {
		target := s.descriptor(number)
		socket, ok := s.socketOf(target)
		if !ok {
			continue
		}
		if near(socket) {
			if f := s.tunnelled(number, target, socket); f != nil {
				return f
			}
			continue
		}
		if s.is(interpreter) && scriptOf(s.args()) != "" {
			return nil // a service of inetd
		}
		stream := [...]string{"standard input", "standard output"}[number]
		return s.connected(socket, fmt.Sprintf("its %s is a connection to %s: whoever is there gives the commands", stream, socket.Remote))
	}
	return nil
}

// tunnelled finds a shell whose input and output are one and the same connection
// within this machine: a tunnel, a proxy or a forwarded port may stand between it
// and whoever gives the commands. One that an ancestor holds the other end of is
// driven by that program.
func (s *subject) tunnelled(number int, target string, socket Socket) *Finding {
	if number != 0 || !socket.Established || !s.is(shell) || s.inlineCode() || s.descriptor(1) != target || s.drivenOver(socket) {
		return nil
	}
	f := s.connected(socket, fmt.Sprintf("its standard input and output are a connection to %s, on this machine: a tunnel may bring the commands", socket.Remote))
	f.Severity = Warning
	return f
}

// drivenOver reports whether an ancestor holds the other end of a connection
// within this machine.
func (s *subject) drivenOver(c Socket) bool {
	found := false
	s.ancestors(func(a *subject) bool {
		for _, d := range a.descriptors() {
			if other, ok := a.socketOf(d.Target); ok && other.Local == c.Remote && other.Remote == c.Local {
				found = true
			}
		}
		return !found
	})
	return found
}

// partOfCommand joins what is found of a pipe's end to what the shell that made
// the pipe is accused of already.
func (s *subject) partOfCommand(f *Finding) *Finding {
	if parent := s.parent(); parent != nil {
		if of := parent.finding(rulePipe); of != nil {
			f.Cause = of.Cause
		}
	}
	return f
}

// behindNetcat finds a shell that a network cat with a connection started: it
// may have given it a terminal of its own.
func (s *subject) behindNetcat() *Finding {
	parent := s.parent()
	if !s.is(shell) || parent == nil || !parent.is(netcat) {
		return nil
	}
	for _, r := range parent.remotes() {
		return s.connected(r, fmt.Sprintf("%s (%d), which started it, is connected to %s", parent.comm(), parent.p.PID, r.Remote))
	}
	return nil
}

// shellConnection is how long a shell may hold a connection: checks that use
// /dev/tcp take seconds.
const shellConnection = 20 * time.Second

// holdsConnection finds a shell that has itself been connected to another
// machine for a while (exec 5<>/dev/tcp/…). One that its parent, or a service,
// left open for it is not its own.
func (s *subject) holdsConnection() *Finding {
	if !s.is(shell) || s.age() < shellConnection || s.service() || s.inlineCode() {
		return nil
	}
	inherited := map[string]bool{}
	if parent := s.parent(); parent != nil {
		for _, d := range parent.descriptors() {
			inherited[d.Target] = true
		}
	}
	for _, r := range s.remotes() {
		if inherited[fmt.Sprintf("socket:[%d]", r.Inode)] {
			continue
		}
		return s.connected(r, fmt.Sprintf("a shell holds a connection to %s", r.Remote))
	}
	return nil
}

// connected is a shell at the end of a connection. All that hangs on one
// connection is one cause.
func (s *subject) connected(r Socket, why string) *Finding {
	f := s.say(rulePipe, Critical, "command matches pipe/download pattern: %s", first(s.args())).
		because(why, s.lineage()).
		then("the connection to "+r.Remote.String(), "what else the user "+s.user()+" runs", s.tree())
	f.Cause = causeOf(r)
	return f
}

// causeOf is the cause of everything that hangs on one connection.
func causeOf(r Socket) string { return rulePipe + "\x00" + r.Remote.String() }

// writer finds the downloader, or the network cat, that holds the other end of
// a pipe.
func (s *subject) writer(inode uint64) *subject {
	var found *subject
	s.all(func(other *subject) {
		if found != nil || other.p.PID == s.p.PID || !other.is(downloader|netcat) {
			return
		}
		for _, d := range other.descriptors() {
			if n, ok := inodeOf(d.Target, "pipe:["); ok && n == inode && d.Number != 0 && d.Number != 2 {
				found = other
				return
			}
		}
	})
	return found
}

// excuse makes Info of what an image build or a CI runner does.
func (s *subject) excuse(f *Finding) *Finding {
	if s.imageBuild() {
		f.Severity = Info
		f.because("an image is being built")
	} else if by, ok := s.built(); ok {
		f.Severity = Info
		f.because(fmt.Sprintf("%s (%d) runs it", by.comm(), by.p.PID))
	}
	return f
}

var (
	pipedToShell = regexp.MustCompile(`\b(?:curl|wget|fetch)\b[^|;&]*\|\s*(?:(?:\w+=\S*|env|exec|nohup|command)\s+)*(?:sudo\s+(?:-\S+\s+)*)?(?:/\S*/)?(?:ba|da|z|k|a|fi)?sh\b(?:\s|$|[;&|])`)
	pipedToOther = regexp.MustCompile(`\b(?:curl|wget|fetch)\b[^|;&]*\|\s*(?:sudo\s+)?(?:/\S*/)?(?:python|perl|ruby|node|php)[\d.]*\s*(?:-\s*)?(?:$|[;&|])`)
	decodedShell = regexp.MustCompile(`\bbase64\s+(?:-d|-D|--decode)\b[^;&]*\|\s*(?:sudo\s+)?(?:/\S*/)?(?:ba|da|z|k|a)?sh\b`)
	evalDownload = regexp.MustCompile("\\b(?:eval|source|\\.|(?:ba|da|z|k|a)?sh\\s+-c)\\s+[\"']?(?:\\$\\(|`|<\\()\\s*(?:curl|wget)\\b")
	subDownload  = regexp.MustCompile(`\b(?:ba|da|z|k)?sh\s+<\(\s*(?:curl|wget)\b`)
	devTCP       = regexp.MustCompile(`(?:>&|<>|<)\s*/dev/(?:tcp|udp)/[^\s/]+/\d+.*(?:0>&1|0<&|<&)|(?:ba|z)?sh\s+-i\b.*/dev/(?:tcp|udp)/`)
)

// judgeCommand judges what a shell or an interpreter was given with -c.
func judgeCommand(s *subject) *Finding {
	if !s.is(shell | interpreter) {
		return nil
	}
	command := commandOf(s.args())
	if command == "" {
		return nil
	}
	what := ""
	if s.is(shell) {
		what = shellPattern(command)
	} else {
		what = codePattern(command)
	}
	if what == "" {
		return nil
	}
	f := s.say(rulePipe, Critical, "command matches pipe/download pattern: %s", first(s.args())).
		because("it was told to "+what, theCommand(command), s.lineage()).
		then("what the download was", s.tree())
	if connected := s.reverse(); connected != nil {
		f.Cause = connected.Cause
		f.because(connected.Evidence[0])
	} else if remotes := s.remotes(); what == fromNetwork && len(remotes) > 0 {
		f.Cause = causeOf(remotes[0])
		f.because("it is connected to " + remotes[0].Remote.String())
	}
	if what == fromNetwork || what == tiedShell {
		return f // no build does that
	}
	return s.excuse(f)
}

// What commands are told to do that nothing excuses.
const (
	fromNetwork = "take its commands from the network"
	tiedShell   = "tie a shell to a connection"
)

// commandOf returns the code behind -c (or -e), also where options or the code
// are in the same argument.
func commandOf(args []string) string {
	for i := 1; i < len(args); i++ {
		a := args[i]
		if !strings.HasPrefix(a, "-") || a == "-" {
			return ""
		}
		if strings.HasPrefix(a, "--") {
			if a == "--eval" && i+1 < len(args) {
				return args[i+1]
			}
			continue
		}
		if at := strings.IndexAny(a, "ce"); at > 0 {
			if rest := a[at+1:]; len(rest) > 2 {
				return rest
			}
			if i+1 < len(args) {
				return args[i+1]
			}
		}
	}
	return ""
}

func shellPattern(command string) string {
	bare := unquoted(command)
	switch {
	case devTCP.MatchString(bare):
		return fromNetwork
	case pipedToShell.MatchString(bare), pipedToOther.MatchString(bare):
		return "run what it downloads"
	case decodedShell.MatchString(bare):
		return "run what it decodes"
	case evalDownload.MatchString(bare), subDownload.MatchString(bare):
		return "run what it downloads"
	}
	return ""
}

// unquoted leaves out what a shell takes as data: single-quoted texts, and
// double-quoted ones but for the substitutions in them.
func unquoted(command string) string {
	var b strings.Builder
	for i := 0; i < len(command); i++ {
		switch c := command[i]; c {
		case '\\':
			i++
		case '\'':
			end := strings.IndexByte(command[i+1:], '\'')
			if end < 0 {
				return b.String()
			}
			b.WriteString("''")
			i += end + 1
		case '"':
			inside, end := doubleQuoted(command[i+1:])
			b.WriteByte('"')
			b.WriteString(inside)
			b.WriteByte('"')
			i += end + 1
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// doubleQuoted returns the substitutions of a double-quoted text and where it
// ends.
func doubleQuoted(text string) (substitutions string, end int) {
	var b strings.Builder
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '"' && depth == 0:
			return b.String(), i
		case c == '$' && i+1 < len(text) && text[i+1] == '(':
			depth++
			b.WriteString("$(")
			i++
		case c == '(' && depth > 0:
			depth++
			b.WriteByte(c)
		case c == ')' && depth > 0:
			depth--
			b.WriteByte(c)
		case depth > 0:
			b.WriteByte(c)
		}
	}
	return b.String(), len(text)
}

// codePattern judges code of an interpreter: two things must come together.
func codePattern(code string) string {
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(code, w) {
				return true
			}
		}
		return false
	}
	switch {
	case has("socket", "Socket", "fsockopen", "TCPSocket", "net.connect") && has("dup2", "pty.spawn", "/bin/sh", "/bin/bash", "subprocess.call([\"", "proc_open", "exec(\"/bin", "open(STDIN,\">&"):
		return tiedShell
	case has("exec(", "eval(", "__import__('os').system") && has("urlopen", "requests.get", "b64decode", "urllib", "http.get", "file_get_contents(\"http", "Net::HTTP"):
		return "run what it downloads or decodes"
	}
	return ""
}

// command is the command line as evidence; "" when there is none to show.
func (s *subject) command() string { return theCommand(strings.Join(s.args(), " ")) }

func theCommand(text string) string {
	if text = strings.TrimSpace(cut(text, 160)); text == "" {
		return ""
	}
	return "its command: " + text
}

// first is the first argument, for messages.
func first(args []string) string {
	if len(args) == 0 {
		return "?"
	}
	return orUnknown(args[0])
}
