package simulator

import (
	"bufio"
	"bytes"
	"io"
	"net/textproto"
	"strconv"
	"strings"
)

// frame is one message of the protocol of NATS, as it is written.
type frame struct {
	raw                       []byte
	verb, subject, sid, reply string
	header, body              []byte
}

// readFrame reads a frame. Those that have a body name its length last.
func readFrame(from *bufio.Reader) (frame, error) {
	line, err := from.ReadString('\n')
	f := frame{raw: []byte(line)}
	words := strings.Fields(line)
	if err != nil || len(words) == 0 {
		return f, err
	}
	f.verb = strings.ToUpper(words[0])
	args := words[1:]
	sizes := 0
	switch f.verb {
	case "SUB":
		f.subject, f.sid = args[0], args[len(args)-1]
		return f, nil
	case "PUB", "MSG":
		sizes = 1
	case "HPUB", "HMSG":
		sizes = 2
	default:
		return f, nil
	}
	names, lengths := args[:len(args)-sizes], args[len(args)-sizes:]
	f.subject = names[0]
	if strings.HasSuffix(f.verb, "MSG") {
		f.sid, names = names[1], names[1:]
	}
	if len(names) > 1 {
		f.reply = names[1]
	}
	total, err := strconv.Atoi(lengths[sizes-1])
	if err != nil {
		return f, err
	}
	head := 0
	if sizes == 2 {
		if head, err = strconv.Atoi(lengths[0]); err != nil {
			return f, err
		}
	}
	rest := make([]byte, total+len("\r\n"))
	_, err = io.ReadFull(from, rest)
	f.raw = append(f.raw, rest...)
	f.header, f.body = rest[:head], rest[head:total]
	return f, err
}

// headerOf returns a header of a message, or "".
func headerOf(text []byte, name string) string {
	_, lines, _ := bytes.Cut(text, []byte("\r\n"))
	header, _ := textproto.NewReader(bufio.NewReader(bytes.NewReader(lines))).ReadMIMEHeader()
	return header.Get(name)
}

// status returns the status that the engine answers, or "".
func (f frame) status() string {
	line, _, _ := bytes.Cut(f.header, []byte("\r\n"))
	words := strings.Fields(string(line))
	if len(words) < 2 {
		return ""
	}
	return words[1]
}

// site returns the lane and the name of what a client publishes, or "" for what says
// nothing.
func (f frame) site() (Lane, string) {
	switch f.verb {
	case "CONNECT":
		return ByMesh, "nats connect"
	case "PUB", "HPUB":
	default:
		return ByMesh, ""
	}
	for _, known := range published {
		if strings.HasPrefix(f.subject, known.subject) {
			return known.lane, known.site
		}
	}
	return ByMesh, "nats other"
}

// published are the beginnings of the subjects to which agents publish, and what that is.
var published = []struct {
	subject string
	lane    Lane
	site    string
}{
	{"asl.box.", Main, "nats post"},
	{"asl.blob.", Main, "nats file"},
	{"$JS.API.CONSUMER.MSG.NEXT.", ByMesh, "nats pull"},
	{"$JS.API.DIRECT.GET.KV_asl-mesh.", ByMesh, "nats halt"},
	{"$KV.asl-who." + handle + ".", Aside, "nats look"},
	{"$KV.asl-who.", Main, "nats register"},
	{"$JS.ACK.", Aside, "nats ack"},
	{"cmd.agent.", Aside, "nats ring"},
	{"evt.agent.", Aside, "nats event"},
}

// engineAnswers name what the engine answers to what was published.
var engineAnswers = map[string]string{
	"nats post": "nats stored", "nats pull": "nats end", "nats halt": "nats halted", "nats register": "nats registered", "nats event": "nats kept", "nats file": "nats filed",
}
