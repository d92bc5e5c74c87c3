package simulator

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// engineLink is what a link knows of the frames that pass through it. The mutex of the
// link guards it.
type engineLink struct {
	subs    map[string]string  // their numbers, by the subject without its last token
	asked   map[string]frame   // what waits for an answer, by the subject of that
	fates   map[string]verdict // of the next answer, by the number of a subscription
	leaving bool               // the client has closed, and the engine reads what it said last
}

// lastWords is how long the engine may take to read what a process said last.
const lastWords = time.Second

// framesOut forwards the frames of a client to the engine. A client that closes had its
// last words read before the link ends.
func (l *link) framesOut() {
	defer l.proxy.slot.framing.Done()
	from := bufio.NewReaderSize(l.client, 16<<10)
	for {
		f, err := readFrame(from)
		if errors.Is(err, io.EOF) && len(f.raw) == 0 {
			l.mu.Lock()
			l.nats.leaving = true
			l.mu.Unlock()
			l.server.SetDeadline(time.Now().Add(lastWords))
			if _, err := fmt.Fprint(l.server, "PING\r\n"); err != nil {
				l.cut()
			}
			return
		}
		if err != nil || !l.frameOut(f) {
			l.cut()
			return
		}
	}
}

// frameOut forwards one frame, unless a fault strikes it. It reports whether the
// connection goes on.
func (l *link) frameOut(f frame) bool {
	if f.verb == "SUB" {
		l.mu.Lock()
		l.nats.subs[strings.TrimSuffix(f.subject, "*")] = f.sid
		l.mu.Unlock()
	}
	lane, site := f.site()
	if site == "" {
		return l.toEngine(f)
	}
	verdict := l.process.point(lane, site)
	sid := l.subscription(f.reply)
	switch verdict {
	case dead:
		return false
	case refused:
		return l.refuseFrame(f, site, sid)
	case cutOff:
		l.server.Write(f.raw[:len(f.raw)/2])
		return false
	case stalled:
		io.Copy(io.Discard, l.client) // until the client gives up
		return false
	case lost, half, lostAll, twice:
		if sid == "" {
			return l.unanswered(f, site, verdict)
		}
		l.mu.Lock()
		l.nats.fates[sid] = verdict
		l.mu.Unlock()
	}
	return l.told(f, site)
}

// unanswered strikes a frame that nobody answers.
func (l *link) unanswered(f frame, site string, v verdict) bool {
	if v == half {
		l.server.Write(f.raw[:len(f.raw)/2])
		return false
	}
	goesOn := l.told(f, site)
	switch v {
	case twice:
		return goesOn && l.toEngine(f)
	case lostAll:
		l.process.die()
	}
	return false
}

// told records what a frame says, and forwards it.
func (l *link) told(f frame, site string) bool {
	nats := l.process.world.nats
	switch site {
	case "nats post":
		nats.published(f)
	case "nats ack":
		nats.checkAck(f)
	}
	if f.reply != "" {
		l.mu.Lock()
		l.nats.asked[f.reply] = f
		l.mu.Unlock()
	}
	return l.toEngine(f)
}

func (l *link) toEngine(f frame) bool {
	_, err := l.server.Write(f.raw)
	return err == nil
}

// subscription returns the number of the subscription that hears an answer, or "".
func (l *link) subscription(reply string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nats.subs[reply[:strings.LastIndex(reply, ".")+1]]
}

// refuseFrame answers in place of the engine, which has no leader. What has no answer is
// lost. It reports whether the connection goes on.
func (l *link) refuseFrame(f frame, site, sid string) bool {
	switch {
	case site == "nats connect":
		fmt.Fprint(l.client, "-ERR 'maximum connections exceeded'\r\n")
		return false
	case sid != "":
		const head = "NATS/1.0 503\r\n\r\n"
		fmt.Fprintf(l.client, "HMSG %s %s %d %d\r\n%s\r\n", f.reply, sid, len(head), len(head), head)
	}
	return true
}

// framesIn forwards the frames of the engine to a client.
func (l *link) framesIn() {
	defer l.proxy.slot.framing.Done()
	from := bufio.NewReaderSize(l.server, 16<<10)
	for {
		f, err := readFrame(from)
		if err != nil {
			l.endIn()
			return
		}
		l.mu.Lock()
		leaving := l.nats.leaving
		l.mu.Unlock()
		switch {
		case leaving && f.verb == "PONG":
			l.cut()
			return
		case leaving:
			l.heard(f)
		case !l.frameIn(f):
			l.cut()
			return
		}
	}
}

// endIn ends what the engine says, so that the client reads all of it: a reset would take
// back the reason why it was sent away.
func (l *link) endIn() {
	l.server.Close()
	if tcp, ok := l.client.(*net.TCPConn); !ok || tcp.CloseWrite() != nil {
		l.cut()
	}
}

// frameIn forwards one frame, unless a fault strikes it. It reports whether the
// connection goes on.
func (l *link) frameIn(f frame) bool {
	lane, site := l.heard(f)
	if site == "" {
		_, err := l.client.Write(f.raw)
		return err == nil
	}
	l.mu.Lock()
	v := l.nats.fates[f.sid]
	delete(l.nats.fates, f.sid)
	l.mu.Unlock()
	if v == goOn {
		v = l.process.point(lane, site)
	}
	f, v = l.process.world.nats.haltShown(f, site, v)
	switch v {
	case lostAll:
		l.process.die()
		return false
	case dead, lost:
		return false
	case refused: // it never comes
		return true
	case half, cutOff:
		l.client.Write(f.raw[:len(f.raw)/2])
		return false
	case stalled:
		io.Copy(io.Discard, l.server) // until the client gives up
		return false
	case twice:
		l.client.Write(f.raw)
	}
	_, err := l.client.Write(f.raw)
	return err == nil
}

// heard records what the engine answers, and returns the lane and the name of the
// answer, or "" for anything else.
func (l *link) heard(f frame) (Lane, string) {
	w := l.process.world
	if f.verb == "-ERR" && bytes.Contains(f.raw, []byte("Authorization Violation")) {
		l.process.refuse("mesh")
	}
	if !strings.HasSuffix(f.verb, "MSG") {
		return Back, ""
	}
	if strings.HasPrefix(f.subject, "asl.box.") {
		return Back, "nats delivery"
	}
	l.mu.Lock()
	asked, known := l.nats.asked[f.subject]
	l.mu.Unlock()
	if !known {
		return Back, ""
	}
	_, site := asked.site()
	switch {
	case f.status() == "503":
		w.troubled("mesh")
		w.count.happened("the engine had no leader")
	case site == "nats post":
		w.nats.answered(asked, f)
	}
	if site == "nats event" {
		return Aside, engineAnswers[site]
	}
	return Back, engineAnswers[site]
}

// dial connects a process to the engine, as long as it lives.
func (p *process) dial(network string) (net.Conn, error) {
	p.slot.mu.Lock()
	mine := p.slot.user == p
	p.slot.mu.Unlock()
	if !mine || p.isDead() {
		return nil, net.ErrClosed
	}
	return net.Dial(network, p.slot.addr("nats"))
}
