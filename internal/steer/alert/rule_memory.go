package alert

// anonymous_executable_memory: code that came from no file.

import (
	"fmt"
	"strings"
)

const ruleMemory = "anonymous_executable_memory"

var anonymousExecutable = Rule{
	Name:       ruleMemory,
	Severities: []Severity{Critical, Warning, Info},
	New:        true,
	Asks:       "Does a process run code that came from no file?",
	Evidence:   "An executable mapping that is anonymous, of a memfd, of a removed file or of a file in a temporary folder. Critical when the memory holds a whole ELF file, or comes from a memfd in a program that makes no code by trade.",
	Silent:     "Programs and libraries that compile at run time: browsers, JVMs, node, .NET, GJS, PHP, LuaJIT, LLVM, PCRE2's JIT, libffi, wine, emulators. Builds and tests, whose libraries lie in temporary folders. Libraries that an upgrade replaced.",
	Limits:     "Code injected into a program that compiles by trade looks like its own, unless it is a whole ELF file. Every process is looked into in turn, new ones first: on a machine with thousands, an old one is looked into again after minutes. Needs the right to trace the process.",
	static:     judgeMemoryMappings,
}

// jitLibraries begin the names of libraries that make code at run time.
var jitLibraries = []string{"libjvm.so", "libmozjs", "libv8", "libnode", "libcoreclr", "libclrjit", "libmono", "libpcre2-8", "libpcre.so", "libpcre2-16", "libffi", "libLLVM", "libluajit", "libjavascriptcoregtk", "libwebkit", "libQt5Qml", "libQt6Qml", "libQt5WebEngine", "libQt6WebEngine", "libxul.so", "libgallium", "libvulkan_lvp", "libOSMesa", "swrast_dri", "libcef.so", "libwasmtime", "libwasmer", "libruby", "libunicorn", "libgccjit", "libtcc", "libcapstone", "libasmjit", "libguile", "libjulia", "libEGL_mesa", "libGLX_nvidia", "libcuda", "opcache.so", "libgmp.so", "orc", "liborc"}

func judgeMemoryMappings(s *subject) *Finding {
	if s.inspection == nil {
		return nil
	}
	makesCode := s.is(jit|browser) && !s.origin.foreign() || s.mapsJIT() || s.embedsBrowser()
	_, built := s.built()
	for _, m := range s.inspection.executable {
		f := s.say(ruleMemory, Warning, "executable memory that no file is behind: %s", s.title()).
			because(describeMapping(m), s.origin.String()).
			then("the content of that memory", s.tree())
		memfd := strings.HasPrefix(m.Path, "/memfd:")
		switch {
		case m.ELF && m.Path == "":
			f.Severity = Critical
			return f.because("it begins with the mark of an ELF file: a program or library was loaded by hand", s.lineage())
		case makesCode:
			continue
		case memfd && s.origin == memory:
			continue // suspicious_exe_path says it
		case memfd:
			f.Severity = Critical
			return f.because("it was made with memfd_create", s.lineage())
		case m.Path == "":
			if built || s.inContainer() {
				continue
			}
			if !m.Writable && s.origin.trusted() {
				f.Severity = Info
			}
			return f.because("neither the program nor its libraries compile at run time", s.lineage())
		case hasPrefix(m.Path, temporaryFolders):
			if s.origin == temporary || built || s.attended() || s.imageBuild() || strings.HasPrefix(m.Path, "/dev/") && !shared(m.Path) {
				continue
			}
			if strings.HasPrefix(m.Path, "/tmp/.mount_") {
				continue
			}
			f.Message = fmt.Sprintf("code from a folder for temporary files: %s", m.Path)
			if !m.Deleted && !shared(m.Path) {
				f.Severity = Info // libraries that runtimes unpack at their start
			}
			return f.because(s.lineage())
		}
	}
	return nil
}

// mapsJIT reports whether a library that makes code is loaded.
func (s *subject) mapsJIT() bool {
	for _, library := range s.inspection.libraries {
		if hasPrefix(library, jitLibraries) {
			return true
		}
	}
	return false
}

// embedsBrowser reports whether the program is built on a browser's engine, as
// Electron's and CEF's are: those lie beside their engine's data.
func (s *subject) embedsBrowser() bool {
	if len(s.inspection.executable) == 0 || s.origin.foreign() || s.executable() == "" {
		return false
	}
	folder := folderOf(s.executable())
	if !strings.HasSuffix(folder, "/") {
		return false
	}
	for _, name := range []string{"icudtl.dat", "v8_context_snapshot.bin", "snapshot_blob.bin"} {
		if _, err := s.evidence.File(s.p.PID, folder+name); err == nil {
			return true
		}
	}
	return false
}

func describeMapping(m Mapping) string {
	rights := "executable"
	if m.Writable {
		rights = "writable and executable"
	}
	path := m.Path
	if path == "" {
		path = "anonymous"
	}
	if m.Deleted {
		path += " (deleted)"
	}
	return fmt.Sprintf("%d KiB at %#x are %s: %s", (m.End-m.Start)/1024, m.Start, rights, path)
}
