package memory

import (
	"encoding/json"
	"strings"
	"time"

	"agentstateloop/fleet"
)

// request handles what is published to JetStream itself, and reports whether anything of
// it listens there.
func (e *Engine) request(subject string, m message) bool {
	if rest, ok := strings.CutPrefix(subject, "$JS.ACK."); ok {
		return e.acknowledgement(subject, rest, m)
	}
	call, ok := strings.CutPrefix(subject, "$JS.API.")
	if !ok {
		return false
	}
	if rest, ok := strings.CutPrefix(call, "DIRECT.GET."); ok {
		return e.directGet(rest, m)
	}
	if rest, ok := strings.CutPrefix(call, "CONSUMER.MSG.NEXT."); ok {
		c := e.consumerOf(rest)
		if c == nil || e.leaderless {
			return false
		}
		e.pull(c, m)
		return true
	}
	if data, err := json.Marshal(e.call(call, m.body)); err == nil {
		e.answer(m, message{body: data})
	}
	return true
}

// call returns the answer to a call that names a stream, or a stream and a consumer.
// Without leaders a cluster tells of streams alone, after some seconds of silence.
func (e *Engine) call(call string, body []byte) any {
	if e.leaderless && !strings.HasPrefix(call, "STREAM.INFO.") {
		return fail("", 503, 10008, "JetStream system temporarily unavailable")
	}
	for _, c := range []struct {
		name   string
		answer func(name string, body []byte) any
	}{
		{"STREAM.INFO.", e.streamInfo},
		{"STREAM.CREATE.", e.createStream},
		{"STREAM.UPDATE.", e.updateStream},
		{"CONSUMER.INFO.", e.consumerInfo},
		{"CONSUMER.DURABLE.CREATE.", e.createConsumer},
	} {
		if name, ok := strings.CutPrefix(call, c.name); ok {
			return c.answer(name, body)
		}
	}
	return fail("", 404, 10000, "an engine in memory does not have this call")
}

// consumerOf returns a consumer by STREAM.NAME; nil if there is none.
func (e *Engine) consumerOf(name string) *consumer {
	stream, name, _ := strings.Cut(name, ".")
	if s := e.stream(stream); s != nil {
		return s.consumer(name)
	}
	return nil
}

func (e *Engine) acknowledgement(subject, rest string, m message) bool {
	tokens := strings.Split(rest, ".")
	if len(tokens) != 7 || e.leaderless {
		return false
	}
	c := e.consumerOf(tokens[0] + "." + tokens[1])
	if c == nil {
		return false
	}
	c.acknowledge(subject, m)
	e.serveConsumer(c)
	return true
}

func (e *Engine) directGet(rest string, m message) bool {
	name, subject, bySubject := strings.Cut(rest, ".")
	s := e.stream(name)
	if s == nil || !s.config.Direct {
		return false
	}
	if bySubject {
		e.getNewest(s, subject, m)
	} else {
		e.getSome(s, m)
	}
	return true
}

const kind = "io.nats.jetstream.api.v1."

// fail is an answer that is an error.
func fail(response string, code, number int, text string) any {
	return struct {
		Type  string  `json:"type"`
		Error refusal `json:"error"`
	}{kind + response, refusal{code, number, text}}
}

func noStream(response string) any { return fail(response, 404, 10059, "stream not found") }

func (e *Engine) streamInfo(name string, _ []byte) any {
	const response = "stream_info_response"
	if s := e.stream(name); s != nil {
		return s.info(response, e.now())
	}
	return noStream(response)
}

func (s *stream) info(response string, now time.Time) map[string]any {
	state := map[string]any{
		"messages": len(s.messages), "bytes": s.bytes, "first_seq": s.last + 1, "first_ts": time.Time{}, "last_seq": s.last, "last_ts": time.Time{},
		"consumer_count": len(s.consumers), "num_subjects": len(s.subjects),
	}
	if n := len(s.messages); n > 0 {
		state["first_seq"], state["first_ts"], state["last_ts"] = s.messages[0].sequence, s.messages[0].at.UTC(), s.messages[n-1].at.UTC()
	}
	return map[string]any{"type": kind + response, "config": s.shown, "created": s.created.UTC(), "state": state, "ts": now.UTC()}
}

func (e *Engine) createStream(name string, body []byte) any {
	const response = "stream_create_response"
	var config fleet.Stream
	if json.Unmarshal(body, &config) != nil || config.Name != name {
		return fail(response, 400, 10056, "stream name in subject does not match request")
	}
	if e.stream(name) != nil {
		return fail(response, 400, 10058, "stream name already in use with a different configuration")
	}
	return e.makeStream(config).info(response, e.now())
}

func (e *Engine) updateStream(name string, body []byte) any {
	const response = "stream_create_response"
	s := e.stream(name)
	if s == nil {
		return noStream(response)
	}
	var config fleet.Stream
	if json.Unmarshal(body, &config) != nil || json.Unmarshal(body, &s.shown) != nil || config.Name != name {
		return fail(response, 400, 10056, "stream name in subject does not match request")
	}
	s.config = config
	return s.info(response, e.now())
}

func (e *Engine) consumerInfo(name string, _ []byte) any {
	const response = "consumer_info_response"
	stream, _, _ := strings.Cut(name, ".")
	if e.stream(stream) == nil {
		return noStream(response)
	}
	c := e.consumerOf(name)
	if c == nil {
		return fail(response, 404, 10014, "consumer not found")
	}
	return c.info(response, e.now())
}

func (c *consumer) info(response string, now time.Time) map[string]any {
	c.expire(now)
	again := 0
	for _, p := range c.pending {
		if p.deliveries > 1 {
			again++
		}
	}
	return map[string]any{
		"type": kind + response, "stream_name": c.stream.config.Name, "name": c.config.Durable, "created": c.created.UTC(), "config": c.config,
		"delivered": map[string]any{"consumer_seq": c.delivered, "stream_seq": c.next - 1}, "num_ack_pending": len(c.pending),
		"num_redelivered": again, "num_waiting": len(c.waiting), "num_pending": c.undelivered(), "ts": now.UTC(),
	}
}

func (e *Engine) createConsumer(name string, body []byte) any {
	const response = "consumer_create_response"
	stream, handle, _ := strings.Cut(name, ".")
	s := e.stream(stream)
	if s == nil {
		return noStream(response)
	}
	var r struct {
		Config fleet.Consumer `json:"config"`
	}
	if json.Unmarshal(body, &r) != nil || r.Config.Durable != handle {
		return fail(response, 400, 10017, "consumer name in subject does not match durable name in request")
	}
	return s.setConsumer(r.Config).info(response, e.now())
}
