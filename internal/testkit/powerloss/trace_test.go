package powerloss

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// traced are the system calls that change a file system, or make a change durable.
const traced = "open,openat,creat,write,writev,pwrite64,pwritev,truncate,ftruncate,fallocate,fsync,fdatasync,sync_file_range," +
	"rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir,chmod,fchmod,fchmodat"

// copying are the system calls whose bytes a trace does not show. They fail here as
// on a kernel without them, and the program reads and writes instead.
const copying = "copy_file_range,sendfile,splice,io_uring_setup"

// needTools skips a test where strace or bubblewrap is missing.
func needTools(t *testing.T) {
	t.Helper()
	out, err := exec.Command("bwrap", "--dev-bind", "/", "/", "--", "strace", "-f", "-o", os.DevNull, "true").CombinedOutput()
	if err == nil {
		return
	}
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
		t.Fatalf("strace does not work in bubblewrap: %v: %s", err, out)
	}
	t.Skipf("strace does not work in bubblewrap here: %v: %s", err, out)
}

// straced returns the command line that runs args and writes their trace to file.
func straced(file string, args ...string) []string {
	return append([]string{"strace", "-f", "--seccomp-bpf", "-qq", "-y", "-ttt", "-T", "-xx", "-s", "100000000", "-e", "signal=none",
		"-e", "trace=" + traced + "," + copying, "-e", "inject=" + copying + ":error=ENOSYS", "-o", file, "--"}, args...)
}

// call is one system call of a trace. Times are microseconds since 1970.
type call struct {
	pid, name  string
	start, end int64
	args       []string
	ret        int64
	opened     string // the path of the descriptor that the call returned
}

var (
	callLine = regexp.MustCompile(`^(\d+) +(\d+)\.(\d{6}) (?:(<\.\.\. \w+ resumed>)|(\w+)\()(.*)$`)
	callEnd  = regexp.MustCompile(`^(.*)\) += (-?\d+)(?:<([^>]*)>(?:\(deleted\))?)?(?: [^<]*)? <(\d+)\.(\d{6})>$`)
)

// readTrace returns the calls of a trace that succeeded, in the order in which they ended.
func readTrace(file string) ([]call, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var calls []call
	unfinished := map[string]call{}
	began := map[string]string{}
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadString('\n')
		if line == "" && err != nil {
			break
		}
		m := callLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			continue // of a signal, or the end of a process
		}
		c := call{pid: m[1], name: m[5], start: microseconds(m[2], m[3])}
		rest := m[6]
		if m[4] != "" {
			c, rest = unfinished[m[1]], began[m[1]]+rest
		}
		if head, ok := strings.CutSuffix(rest, " <unfinished ...>"); ok {
			unfinished[m[1]], began[m[1]] = c, head
			continue
		}
		end := callEnd.FindStringSubmatch(rest)
		if end == nil {
			continue // the process was killed in it
		}
		if c.ret, _ = strconv.ParseInt(end[2], 10, 64); c.ret < 0 {
			continue
		}
		c.end = c.start + microseconds(end[4], end[5])
		c.opened = unhex(end[3])
		c.args = splitArgs(end[1])
		calls = append(calls, c)
	}
	slices.SortStableFunc(calls, func(a, b call) int { return int(a.end - b.end) })
	return calls, nil
}

func microseconds(seconds, fraction string) int64 {
	s, _ := strconv.ParseInt(seconds, 10, 64)
	f, _ := strconv.ParseInt(fraction, 10, 64)
	return s*1_000_000 + f
}

// splitArgs splits the arguments of a call at the commas between them. Strings and
// paths are in hexadecimal, so that they hold none.
func splitArgs(text string) []string {
	var args []string
	depth, start := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case ',':
			if depth == 0 {
				args = append(args, strings.TrimSpace(text[start:i]))
				start = i + 1
			}
		}
	}
	return append(args, strings.TrimSpace(text[start:]))
}

// unhex decodes \x2f\x74.
func unhex(text string) string {
	b, err := hex.DecodeString(strings.ReplaceAll(text, `\x`, ""))
	if err != nil {
		return text
	}
	return string(b)
}

var quoted = regexp.MustCompile(`"([^"]*)"`)

// text returns the bytes of the strings in an argument.
func text(arg string) []byte {
	var all bytes.Buffer
	for _, m := range quoted.FindAllStringSubmatch(arg, -1) {
		all.WriteString(unhex(m[1]))
	}
	return all.Bytes()
}

// described returns the path of the descriptor in an argument such as 5<path>. It is
// "" if that has no name any more.
func described(arg string) string {
	_, path, ok := strings.Cut(arg, "<")
	path, after, _ := strings.Cut(path, ">")
	if path = unhex(path); !ok || after == "(deleted)" || strings.HasSuffix(path, " (deleted)") {
		return ""
	}
	return path
}

// number returns an argument that is a number, in C's notation.
func number(arg string) int64 {
	n, _ := strconv.ParseInt(arg, 0, 64)
	return n
}

// at returns the path that arguments i (a folder's descriptor) and i+1 name.
func (c call) at(i int) string {
	path := string(text(c.args[i+1]))
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(described(c.args[i]), path)
}

// relative reports whether the call has a path that is relative to the folder of its
// process.
func (c call) relative() bool {
	if strings.HasSuffix(c.name, "at") || strings.HasSuffix(c.name, "at2") || c.name == "symlink" || c.name == "open" || c.name == "creat" || c.name == "write" {
		return false
	}
	return strings.HasPrefix(c.args[0], `"`) && !filepath.IsAbs(string(text(c.args[0])))
}

// path returns the path in argument i.
func (c call) path(i int) string { return filepath.Clean(string(text(c.args[i]))) }

// play applies a call to the disk.
func (d *disk) play(c call) error {
	d.began, d.ended = c.start, c.end
	if c.relative() {
		return fmt.Errorf("%s of %s: a trace does not show the folder that it is relative to", c.name, text(c.args[0]))
	}
	switch c.name {
	case "open", "openat", "creat":
		flags, mode := c.args[len(c.args)-1], int64(0o600)
		if c.name == "creat" {
			flags = "O_CREAT|O_TRUNC"
		} else if strings.Contains(flags, "O_") == false {
			flags, mode = c.args[len(c.args)-2], number(flags)
		}
		return d.open(c.opened, strings.Contains(flags, "O_CREAT"), strings.Contains(flags, "O_TRUNC"), mode&^umask)
	case "write", "writev":
		return d.write(described(c.args[0]), -1, text(c.args[1])[:c.ret])
	case "pwrite64", "pwritev":
		return d.write(described(c.args[0]), number(c.args[len(c.args)-1]), text(c.args[1])[:c.ret])
	case "ftruncate":
		return d.truncate(described(c.args[0]), number(c.args[1]))
	case "truncate":
		return d.truncate(c.path(0), number(c.args[1]))
	case "fsync", "fdatasync":
		return d.sync(described(c.args[0]))
	case "rename":
		return d.rename(c.path(0), c.path(1))
	case "renameat", "renameat2":
		return d.rename(c.at(0), c.at(2))
	case "link":
		return d.link(c.path(0), c.path(1))
	case "linkat":
		return d.link(c.at(0), c.at(2))
	case "symlink":
		return d.symlink(string(text(c.args[0])), c.path(1))
	case "symlinkat":
		return d.symlink(string(text(c.args[0])), c.at(1))
	case "unlink", "rmdir":
		return d.unlink(c.path(0))
	case "unlinkat":
		return d.unlink(c.at(0))
	case "mkdir":
		return d.mkdir(c.path(0), number(c.args[1])&^umask)
	case "mkdirat":
		return d.mkdir(c.at(0), number(c.args[2])&^umask)
	case "chmod":
		return d.chmod(c.path(0), number(c.args[1]))
	case "fchmod":
		return d.chmod(described(c.args[0]), number(c.args[1]))
	case "fchmodat":
		return d.chmod(c.at(0), number(c.args[2]))
	case "fchmodat2", "syscall_0x1c4":
		return nil // an older strace shows its number alone; we call it only for what is about to be removed
	}
	return fmt.Errorf("%s is not modelled", c.name)
}
