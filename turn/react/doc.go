// Package react is the agent loop behind runner = "api". It asks a model, runs the tools that
// the model calls, writes each step to disk, and asks again, within a budget
// (docs/decisions/0010-built-in-loop.md). It runs in a process of its own, which package turn
// starts like any other agent.
//
// Start reading at Loop.Run in loop.go. request.go asks the model, call_tools.go runs its
// calls, compact.go keeps the conversation within the window, and steps.go makes it durable.
// anthropic.go and openai.go are the two Models, and sse.go reads the events of both.
package react
