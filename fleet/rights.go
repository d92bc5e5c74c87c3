package fleet

// Permissions are the subjects that a user may use. It may use nothing else.
type Permissions struct {
	Publish, Subscribe []string
}

// Rights returns what the user of an agent may do: read what is its own, and write
// where it is the sender. Who sent a message is proved by its signature all the same: the
// server publishes answers with rights of its own, wherever a request names as its reply.
//
// An agent makes, deletes and lists no stream and no consumer, and reads by subject only:
// a request of the API that names its subject in the body reads what is others'.
func Rights(handle string) Permissions {
	direct := func(stream, subjects string) string { return "$JS.API.DIRECT.GET." + stream + "." + subjects }
	return Permissions{
		Publish: []string{
			wakeupSubject("*"),
			taskSubject(handle),
			boxSubject("*", handle),
			"asl.blob.*." + handle + ".>", // the files that it sends
			"asl.blob." + handle + ".>",   // and those that it has read, to remove them
			whoSubject(handle),
			lookSubject(handle, "*"),
			haltSubject,
			"$JS.API.DIRECT.GET." + WhoStream, // the registry is everybody's: all rows in one request
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

// service is what the account of the agents takes from the account that has the streams.
type service struct {
	subject string
	many    bool // a request may have more than one answer
}

// services returns all that agents can reach. In the account of the streams the server
// obeys what it writes itself, as an answer to a request that names as its reply, say, the
// subject that deletes a stream. An answer to an agent stays in the account of the agents,
// where only these subjects lead to the streams.
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
