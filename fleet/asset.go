package fleet

import "time"

// Asset is a stream that the servers should have.
type Asset struct {
	Stream Stream
	Holds  string // its purpose, in a few words
	Fleet  bool   // only agents with [fleet] use it
}

// Stream is the configuration of a stream, limited to the settings that matter to us. Its JSON
// is that of JetStream. A setting without a field, such as the description, belongs to the
// administrator.
type Stream struct {
	Name      string   `json:"name"`
	Subjects  []string `json:"subjects"`
	Retention string   `json:"retention"` // limits or workqueue
	Storage   string   `json:"storage"`
	Discard   string   `json:"discard"` // at a limit, new refuses new messages, and old deletes old ones
	Replicas  int      `json:"num_replicas"`

	MaxMessages  int           `json:"max_msgs"`      // -1: any number
	MaxConsumers int           `json:"max_consumers"` // -1: any number
	MaxBytes     int64         `json:"max_bytes"`
	MaxAge       time.Duration `json:"max_age"`
	MaxSize      int           `json:"max_msg_size"`         // of one message with its headers
	PerSubject   int           `json:"max_msgs_per_subject"` // -1: any number
	Duplicates   time.Duration `json:"duplicate_window"`

	DiscardNewPerSubject bool `json:"discard_new_per_subject"`
	Direct               bool `json:"allow_direct"`
	TTL                  bool `json:"allow_msg_ttl"`
	NoAck                bool `json:"no_ack"` // off: the server acknowledges every stored message
	Sealed               bool `json:"sealed"` // off: the stream accepts messages

	// These must be off. With one of these headers, a client that may publish to one subject
	// could delete messages of others, or make the server publish in its place.
	Rollup    bool `json:"allow_rollup_hdrs"`
	Schedules bool `json:"allow_msg_schedules"`
	Counter   bool `json:"allow_msg_counter"`
}

// Consumer is the configuration of a mailbox's consumer, limited like Stream.
type Consumer struct {
	Durable    string        `json:"durable_name"`
	Filter     string        `json:"filter_subject"`
	Deliver    string        `json:"deliver_policy"`
	AckPolicy  string        `json:"ack_policy"`
	AckWait    time.Duration `json:"ack_wait"`
	MaxDeliver int           `json:"max_deliver"`     // -1: any number of times
	MaxPending int           `json:"max_ack_pending"` // -1: any number; at a limit the server leaves a pull unanswered
	Replicas   int           `json:"num_replicas"`    // 0: as many as the stream has
	Memory     bool          `json:"mem_storage"`
	Push       string        `json:"deliver_subject"`    // "": the agent pulls
	Headers    bool          `json:"headers_only"`       // off: bodies too
	Idle       time.Duration `json:"inactive_threshold"` // 0: it stays without pulls

	// The limits of one request: not set.
	Batch   int           `json:"max_batch"`
	Expires time.Duration `json:"max_expires"`
	Bytes   int           `json:"max_bytes"`
}

const (
	headerRoom  = 4 << 10   // for the headers of a message, besides its body
	mailboxBody = 66 << 10  // the body of a mesh message
	blobChunk   = 256 << 10 // a chunk of a file

	day = 24 * time.Hour

	maxReplicas = 3 // more copies cost more, and help only if two servers are lost at once
)

// Assets returns the streams for this number of servers.
func Assets(servers int) []Asset {
	stream := func(name, subject string) Stream {
		return Stream{Name: name, Subjects: []string{subject}, Retention: "limits", Storage: "file", Discard: "new", Replicas: Replicas(servers),
			MaxMessages: -1, MaxConsumers: -1, PerSubject: -1, Duplicates: 2 * time.Minute, Direct: true}
	}
	mailbox := stream(MailboxStream, "asl.box.*.*")
	mailbox.Retention, mailbox.PerSubject, mailbox.DiscardNewPerSubject = "workqueue", 100, true
	mailbox.MaxSize, mailbox.MaxBytes, mailbox.Duplicates = mailboxBody+headerRoom, 1<<30, time.Hour

	blob := stream(BlobStream, "asl.blob.*.*.*.*")
	blob.PerSubject, blob.TTL, blob.MaxAge = 1, true, 7*day
	blob.MaxSize, blob.MaxBytes = blobChunk+headerRoom, 4<<30

	event := stream(EventStream, "evt.agent.*.task")
	event.Discard, event.MaxAge, event.Duplicates = "old", 30*day, time.Hour
	event.MaxSize, event.MaxBytes = 64<<10, 256<<20

	who := stream(WhoStream, "$KV.asl-who.>")
	who.PerSubject, who.MaxAge, who.MaxSize, who.MaxBytes = 1, 7*day, 16<<10, 64<<20

	mesh := stream(MeshStream, haltSubject)
	mesh.PerSubject, mesh.MaxSize, mesh.MaxBytes = 4, 16<<10, 1<<20

	// A full stream of heads refuses the head of another agent. It must not remove the only head of
	// one that is idle. Each subject drops its oldest head.
	head := stream(HeadStream, "$KV.asl-head.>")
	head.PerSubject, head.MaxSize, head.MaxBytes = 8, MaxHead+headerRoom, 2<<30

	history := stream(HistoryStream, "asl.hist.*.*")
	history.PerSubject, history.DiscardNewPerSubject = 1, true // nobody can replace a block
	history.MaxSize, history.MaxBytes = MaxHead+headerRoom, 4<<30

	file := stream(FileStream, "asl.file.*.*.*")
	file.PerSubject, file.MaxAge = 1, 30*day
	file.MaxSize, file.MaxBytes = chunkSize+headerRoom, 8<<30

	return []Asset{
		{Stream: mailbox, Holds: "the mailboxes"},
		{Stream: blob, Holds: "the files of messages, in chunks"},
		{Stream: event, Holds: "the results of turns, for observers"},
		{Stream: who, Holds: "the registry: the agents, and when each host last polled"},
		{Stream: mesh, Holds: "HALT"},
		{Stream: head, Holds: "the state of each agent with [fleet]", Fleet: true},
		{Stream: history, Holds: "the history of each agent with [fleet]", Fleet: true},
		{Stream: file, Holds: "the files of each agent with [fleet]", Fleet: true},
	}
}

// Replicas returns how many of the servers store each message.
func Replicas(servers int) int { return max(1, min(servers, maxReplicas)) }

// Mailbox returns the consumer that reads an agent's mailbox.
func Mailbox(handle string) Consumer {
	return Consumer{Durable: handle, Filter: mailboxSubject(handle, "*"), Deliver: "all", AckPolicy: "explicit",
		AckWait: time.Minute, MaxDeliver: -1, MaxPending: -1}
}

// StoreSize returns how many bytes a server needs for all streams at their limits, in whole
// GiB, with room for its own files.
func StoreSize() int64 {
	const gib = 1 << 30
	size := int64(gib) / 2
	for _, a := range Assets(1) {
		size += a.Stream.MaxBytes
	}
	return (size + gib - 1) / gib * gib
}
