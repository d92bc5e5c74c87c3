package fleet

// Permissions are the only subjects that a user may use.
type Permissions struct {
	Publish, Subscribe []string
}

// Rights returns the rights of an agent's user: to read its own messages, and to write where it
// is the sender. A signature must still prove the sender, because the server has rights of its
// own: it publishes an answer to any subject that a request names as its reply.
//
// An agent cannot make, delete or list streams and consumers. It reads only by subject, because
// an API request with the subject in its body could read messages of others.
func Rights(handle string) Permissions {
	direct := func(stream, subjects string) string { return "$JS.API.DIRECT.GET." + stream + "." + subjects }
	return Permissions{
		Publish: []string{
			wakeupSubject("*"),
			taskSubject(handle),
			boxSubject("*", handle),
			"asl.blob.*." + handle + ".>", // the files that it sends
			"asl.blob." + handle + ".>",   // the files that it has read, to remove them
			whoSubject(handle),
			lookSubject(handle, "*"),
			haltSubject,
			"$JS.API.DIRECT.GET." + WhoStream, // the registry is open to all: all rows in one request
			direct(WhoStream, ">"),
			direct(MeshStream, ">"),
			direct(BlobStream, "asl.blob."+handle+".>"),
			"$JS.API.CONSUMER.MSG.NEXT." + BoxStream + "." + handle,
			"$JS.API.CONSUMER.INFO." + BoxStream + "." + handle,
			"$JS.ACK." + BoxStream + "." + handle + ".>",
		},
		Subscribe: []string{
			wakeupSubject(handle),
			haltSubject,
			inboxPrefix(handle) + ".>",
		},
	}
}

// service is a subject that the account of the agents imports from the account of the streams.
type service struct {
	subject string
	many    bool // a request may have more than one answer
}

// services returns all services that agents can reach. In the account of the streams, the
// server obeys its own answers. There, a request could name the subject that deletes a stream
// as its reply. An answer to an agent stays in the account of the agents, where only these
// subjects lead to the streams.
func services() []service {
	const api = "$JS.API."
	return []service{
		{subject: taskSubject("*")},
		{subject: boxSubject("*", "*")},
		{subject: "asl.blob.>"},
		{subject: whoSubject(">")},
		{subject: haltSubject},
		{subject: api + "DIRECT.GET." + WhoStream, many: true},
		{subject: api + "DIRECT.GET." + WhoStream + ".>"},
		{subject: api + "DIRECT.GET." + MeshStream + ".>"},
		{subject: api + "DIRECT.GET." + BlobStream + ".>"},
		{subject: api + "CONSUMER.MSG.NEXT." + BoxStream + ".*", many: true},
		{subject: api + "CONSUMER.INFO." + BoxStream + ".*"},
		{subject: "$JS.ACK." + BoxStream + ".>"},

		// No agent has a right to this one. Without it nats-server adds all of $JS.API to
		// the account of the agents, and answers there that JetStream is off.
		{subject: api + "INFO"},
	}
}
