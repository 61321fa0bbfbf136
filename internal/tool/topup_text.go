package tool

// This file holds the descriptions of the topup contract's tools.

const (
	topupEval = `Evaluate one or more OCaml phrases in the persistent toplevel; bindings stay for later calls. Returns value_repr, type, stdout, stderr, warnings and error (null for success; else phase, location, message). ` +
		`timeout, in seconds, interrupts the evaluation and keeps the session. An oversized value_repr, stdout or stderr is cut with a marker "…[+N bytes; full at <path>]" and written whole to the path in its *_overflow field. ` +
		`Work that the source leaves in the background is the caller's business: programs survive reset and end with the session, threads and domains end with a reset, and what they print later may land in another capture, so wait for them first. ` +
		`Pass session or host (not both) to evaluate in a named local session or on another host.`
	topupEvalBatch = `Evaluate a list of sources one after the other; later ones see the bindings of earlier ones. Stops after the first whose error is not null. Returns results, one for every source that was evaluated, and stopped_on_error, true when sources were left out. ` +
		`timeout is per source. It saves round trips in tight loops, above all with host or session.`
	topupEnv = `List the value bindings that the session's own phrases made, with type, place and a short preview: the way to recall a workspace built up by earlier eval calls. ` +
		`filter selects by a part of the name, names that begin with it first; all includes the standard library and what was opened or loaded.`
	topupLookup = `Look up one binding by its name: type, place of definition and a short preview of the value; null when there is none. Use it with env to navigate a workspace instead of evaluating names to see them. Qualified names such as List.map are found too.`
	topupReset  = `Discard every binding and start with a fresh toplevel and a new phrase log; loaded libraries are dropped as well, so load them again. To go back to a known state or to branch, prefer restore, which gives a workspace with content instead of an empty one.`
	topupCancel = `Interrupt the evaluation that is running now; it answers with the error "evaluation cancelled" and the session lives on. Does nothing when nothing runs. Without host and session it means the local session only: it is never broadcast.`
	topupLoad   = `Load a compiled archive into the live session: .cma or .cmo in topup, .cmxs in topup-opt. Its folder joins the load path, so that the .cmi beside it is found, and its modules are available to later calls. ` +
		`Archives are not in the phrase log: load them again after reset or restore. With host the path is one on that host.`
	topupCheckpoint = `Save the session's phrase log under a label as plain OCaml source, <label>.ml in TOPUP_CHECKPOINT_DIR (~/.topup/checkpoints by default). A label has letters, digits, '.', '_' and '-', no leading dot and no '..'; one that exists is overwritten. ` +
		`Needs phrase logging (TOPUP_LOG not off). Take one before an experiment and restore it after.`
	topupRestore = `Reset the session and replay the checkpoint with this label, which becomes its phrase log. Returns what eval returns: an error that is not null means that a phrase failed and that the phrases before it are the state. ` +
		`The label previous, unless a checkpoint has it, means what the session had before its last reset, restore or restart, or before this server was started. Side effects happen again. Loaded archives are not in the log: load them first thing afterwards. Needs phrase logging.`
	topupCompile = `Promote the session to a native program: its phrase log becomes a dune project in the folder out (absolute), which is built, and the program is out/main.exe. entry is a name in scope of type unit -> _ that the program calls. ` +
		`The folder is made if needed and refused if it holds anything but an earlier promotion (file .topup-promote). libraries are findlib packages beside those that the session required. ` +
		`ok is false when the build failed; build_log says why. Needs phrase logging and dune on PATH; restore a clean checkpoint first if the log holds experiments.`
	topupPush = `Copy a file of this machine to a started host, over the connection that calls use. remote_path defaults to the file's name in TOPUP_XFER_DIR (~/.topup/xfer) there. Files are capped at TOPUP_XFER_MAX_BYTES (16 MiB) and written at once, never in part.`
	topupPull = `Copy a file of a started host to this machine, over the connection that calls use. local_path defaults to the file's name in TOPUP_XFER_DIR (~/.topup/xfer) here. Files are capped at TOPUP_XFER_MAX_BYTES (16 MiB) and written at once, never in part.`

	topupStartHost = `Bring up a topup session on another host (ssh -L … <host> topup --socket <remote_socket>) and register it; then pass host to the other tools. Does nothing when it is up. remote_socket defaults to ~/.topup/sockets/topup.sock there. ` +
		`A failure to connect is a JSON error with phase "connect". A connection that breaks is made again by the next call. ` +
		`Evaluations there reach files of this machine with Topup.read_back and Topup.write_back, below TOPUP_BACKCHANNEL_ROOT (~/.topup/back).`
	topupRestartHost = `Take the connection to a host down and bring it up again with an empty session: for a wedged tunnel or a session that hangs; it waits for neither. For a fresh OCaml environment use reset with host instead, which is faster and keeps the tunnel.`
	topupUpdateHost  = `Set the description and the operating system of a registered host, only the ones that are passed. Both are listed in the instructions of the next initialize and stay in the registry across restarts of this server.`
	topupStart       = `Bring up a named local session with an environment of its own; then pass session to the other tools. Does nothing when it is up. prewarm is a file that is #use-d first; if it fails there is no session, and the error says why. ` +
		`pool greater than 1 also brings up siblings <session>.1 and so on with the same prewarm, so that restore in one of them branches off without a cold start. The reply's local_socket serves the session to other clients.`
	topupRestart = `End the process of a named session and start it again with its registered prewarm; bindings are lost. For a fresh environment of a healthy session, reset is faster. Siblings of its pool are left alone.`
	topupUpdate  = `Set the prewarm path or the pool size of a registered session, only the ones that are passed. They are kept across restarts of this server and take effect at the next restart_local_session or start_local_session; the running session is left alone.`
)
