(* The OCaml side of a session: a toplevel without a prompt.

   Requests arrive on descriptor 3, replies leave on descriptor 4, the keeper is woken on descriptor 5, the process
   that has evaluated nothing on descriptor 6.
   Descriptors 0, 1 and 2 belong to the evaluated code. What differs between compilers is in Shim. *)

(* ---- values on the wire -------------------------------------------------------------------------------- *)

type value = N | I of int | S of string | L of value list | D of (string * value) list

let rec encode b = function
  | N -> Buffer.add_char b 'n'
  | I i ->
      Buffer.add_char b 'i';
      Buffer.add_string b (string_of_int i);
      Buffer.add_char b 'e'
  | S s -> encode_string b s
  | L l ->
      Buffer.add_char b 'l';
      List.iter (encode b) l;
      Buffer.add_char b 'e'
  | D d ->
      Buffer.add_char b 'd';
      List.iter
        (fun (k, v) ->
          encode_string b k;
          encode b v)
        d;
      Buffer.add_char b 'e'

and encode_string b s =
  Buffer.add_string b (string_of_int (String.length s));
  Buffer.add_char b ':';
  Buffer.add_string b s

let decode s =
  let pos = ref 0 in
  let until stop =
    let i = String.index_from s !pos stop in
    let text = String.sub s !pos (i - !pos) in
    pos := i + 1;
    text
  in
  let rec one () =
    match s.[!pos] with
    | 'n' -> incr pos; N
    | 'i' -> incr pos; I (int_of_string (until 'e'))
    | 'l' -> incr pos; L (many [])
    | 'd' -> incr pos; D (pairs [])
    | _ -> S (str ())
  and str () =
    let n = int_of_string (until ':') in
    let text = String.sub s !pos n in
    pos := !pos + n;
    text
  and many acc = if s.[!pos] = 'e' then (incr pos; List.rev acc) else let v = one () in many (v :: acc)
  and pairs acc =
    if s.[!pos] = 'e' then (incr pos; List.rev acc)
    else
      let k = str () in
      let v = one () in
      pairs ((k, v) :: acc)
  in
  one ()

let field d k = match d with D l -> ( try List.assoc k l with Not_found -> N) | _ -> N
let text_field d k = match field d k with S s -> s | _ -> ""
let int_field d k = match field d k with I i -> i | _ -> 0

(* ---- frames --------------------------------------------------------------------------------------------- *)

let fd_of_int : int -> Unix.file_descr = Obj.magic
let requests = fd_of_int 3
let replies = fd_of_int 4
let wakeup = fd_of_int 5
let rewind = fd_of_int 6

(* die leaves at once: no at_exit function of the session's code may run in a process that only waits or that
   the session's code forked. *)
let die () =
  Unix.kill (Unix.getpid ()) Sys.sigkill;
  assert false

(* An evaluation that closed or replaced the session's own descriptors ends with the process. Otherwise it would be in
   the log, and end every process that evaluates the log again. *)
let pipes =
  let identity fd = let s = Unix.fstat fd in (s.Unix.st_dev, s.Unix.st_ino) in
  List.map (fun fd -> (fd, identity fd)) [ requests; replies; wakeup ]

let lost_pipes () =
  let same (fd, id) = match Unix.fstat fd with s -> (s.Unix.st_dev, s.Unix.st_ino) = id | exception _ -> false in
  not (List.for_all same pipes)

(* Nor may it close a standard one: channels cannot be opened again, and the next file would be the output's. *)
let lost_standard () =
  let closed fd = match Unix.fstat fd with _ -> false | exception _ -> true in
  List.exists closed [ Unix.stdin; Unix.stdout; Unix.stderr ]

(* check_descriptors ends the process of an evaluation that took what the session works with. *)
let check_descriptors flush_output =
  let pipes = lost_pipes () in
  if pipes || lost_standard () then begin
    flush_output ();
    let words =
      if pipes then "the evaluation closed or replaced a descriptor from 3 on, with which the session works\n"
      else "the evaluation closed standard input, output or error, with which the session works\n"
    in
    let write fd = try Unix.write_substring fd words 0 (String.length words) > 0 with _ -> false in
    ignore (write Unix.stderr || write Unix.stdout);
    die ()
  end

let rec read_fully fd b off n =
  if n > 0 then
    match Unix.read fd b off n with
    | 0 -> raise End_of_file
    | k -> read_fully fd b (off + k) (n - k)
    | exception Unix.Unix_error (Unix.EINTR, _, _) -> read_fully fd b off n

let rec write_fully fd b off n =
  if n > 0 then
    match Unix.write fd b off n with
    | k -> write_fully fd b (off + k) (n - k)
    | exception Unix.Unix_error (Unix.EINTR, _, _) -> write_fully fd b off n

(* One read usually brings a whole request; held are the bytes of it that were not looked at yet. *)
let chunk = Bytes.create 65536
let held_from = ref 0
let held_to = ref 0

let rec take b off n =
  if n > 0 then
    let have = !held_to - !held_from in
    if have > 0 then begin
      let k = min n have in
      Bytes.blit chunk !held_from b off k;
      held_from := !held_from + k;
      take b (off + k) (n - k)
    end
    else if n > Bytes.length chunk then read_fully requests b off n
    else
      match Unix.read requests chunk 0 (Bytes.length chunk) with
      | 0 -> raise End_of_file
      | k ->
          held_from := 0;
          held_to := k;
          take b off n
      | exception Unix.Unix_error (Unix.EINTR, _, _) -> take b off n

let receive () =
  let head = Bytes.create 4 in
  take head 0 4;
  let byte i = Char.code (Bytes.get head i) in
  let n = (byte 0 lsl 24) lor (byte 1 lsl 16) lor (byte 2 lsl 8) lor byte 3 in
  let body = Bytes.create n in
  take body 0 n;
  decode (Bytes.unsafe_to_string body)

let out = Buffer.create 4096

let send v =
  Buffer.clear out;
  Buffer.add_string out "\000\000\000\000";
  encode out v;
  let b = Buffer.to_bytes out in
  let n = Bytes.length b - 4 in
  List.iteri (fun i shift -> Bytes.set b i (Char.chr ((n lsr shift) land 255))) [ 24; 16; 8; 0 ];
  write_fully replies b 0 (Bytes.length b);
  if Buffer.length out > 1_000_000 then Buffer.reset out

(* ---- state ---------------------------------------------------------------------------------------------- *)

(* running is true while code of the session runs: only then does an interrupt become an exception. *)
let running = ref false
let interrupted = ref false (* since the evaluation began *)
let owner = ref (Unix.getpid ())

(* seq numbers the last evaluation whose effects are in this process. *)
let seq = ref 0

let flush_output () =
  (try Format.pp_print_flush Format.std_formatter () with _ -> ());
  (try Format.pp_print_flush Format.err_formatter () with _ -> ());
  (try flush stdout with _ -> ());
  try flush stderr with _ -> ()

let on_interrupt _ =
  if !running then begin
    interrupted := true;
    flush_output ();
    raise Sys.Break
  end

let sigurg = 23
let sigxfsz = 25

let set_signal s b = try Sys.set_signal s b with _ -> ()

(* The session's code may have set its own handler: each evaluation begins with ours. *)
let watch_interrupts () = set_signal Sys.sigint (Sys.Signal_handle on_interrupt)

let install_signals () =
  let set = set_signal in
  watch_interrupts ();
  (* A reader of running output asks for what is still in the buffers. *)
  set sigurg (Sys.Signal_handle (fun _ -> if !running then try flush stdout; flush stderr with _ -> ()));
  set sigxfsz Sys.Signal_ignore;
  set Sys.sigpipe Sys.Signal_ignore

(* ---- locations, errors, warnings ------------------------------------------------------------------------- *)

let location (loc : Location.t) =
  if loc.loc_ghost && loc.loc_start.pos_cnum < 0 then N
  else if loc.loc_start.pos_fname = "" || loc.loc_start.pos_fname = "_none_" then N
  else
    let s = loc.loc_start and e = loc.loc_end in
    D
      [
        ("file", S s.pos_fname);
        ("line", I s.pos_lnum);
        ("col", I (s.pos_cnum - s.pos_bol));
        ("line_end", I e.pos_lnum);
        ("col_end", I (e.pos_cnum - e.pos_bol));
      ]

type failure = {
  phase : string;
  where : value;
  message : string;
  related : string list;
  backtrace : string;
  broke : bool;
}

let diagnostics : value list ref = ref []

let record loc = function
  | None -> None
  | Some (report : Location.report) ->
      let kind, name =
        match report.kind with
        | Location.Report_error -> ("error", "")
        | Location.Report_warning s -> ("warning", s)
        | Location.Report_warning_as_error s -> ("warning-error", s)
        | Location.Report_alert s -> ("alert", s)
        | Location.Report_alert_as_error s -> ("alert-error", s)
      in
      diagnostics :=
        D
          [
            ("kind", S kind);
            ("name", S name);
            ("loc", location loc);
            ("message", S (Shim.text report.main.txt));
            ("related", L (List.map (fun (m : Location.msg) -> S (Shim.text m.txt)) report.sub));
          ]
        :: !diagnostics;
      Some report

let () =
  (Location.warning_reporter := fun loc w -> record loc (Location.default_warning_reporter loc w));
  Location.alert_reporter := fun loc a -> record loc (Location.default_alert_reporter loc a)

let runtime ?(backtrace = "") exn =
  let broke = exn = Sys.Break in
  let message = if broke then "interrupted" else try Printexc.to_string exn with _ -> "exception" in
  { phase = "runtime"; where = N; message; related = []; backtrace; broke }

let failure_of_exn exn =
  match exn with
  | Sys.Break | Stack_overflow | Out_of_memory -> runtime exn
  | _ -> (
      match try Location.error_of_exn exn with _ -> None with
      | Some `Already_displayed ->
          { phase = "typecheck"; where = N; message = "<error already displayed>"; related = []; backtrace = ""; broke = false }
      | Some (`Ok report) ->
          {
            phase = "typecheck";
            where = location report.main.loc;
            message = Shim.text report.main.txt;
            related = List.map (fun (m : Location.msg) -> Shim.text m.txt) report.sub;
            backtrace = "";
            broke = false;
          }
      | None -> runtime exn)

let failed ?(where = N) phase message = Some { phase; where; message; related = []; backtrace = ""; broke = false }

(* ---- outcomes -------------------------------------------------------------------------------------------- *)

(* Value and type of an evaluation are two slots; the last phrase or item that has one fills it. *)
let last_value : Outcometree.out_value option ref = ref None
let last_type : Outcometree.out_type option ref = ref None
let raised : exn option ref = ref None

let () =
  Toploop.print_out_phrase :=
    fun _ -> function
      | Outcometree.Ophr_eval (v, t) ->
          last_value := Some v;
          last_type := Some t
      | Outcometree.Ophr_signature items ->
          List.iter
            (function
              | Outcometree.Osig_value d, v ->
                  last_type := Some d.Outcometree.oval_type;
                  if v <> None then last_value := v
              | _ -> ())
            items
      | Outcometree.Ophr_exception (e, _) -> raised := Some e

(* Making a formatter costs more than printing most values: this one is used again unless it is in use. *)
let page = Buffer.create 4096
let pen = Format.formatter_of_buffer page
let pen_busy = ref false

let with_buffer f =
  if !pen_busy then begin
    let b = Buffer.create 256 in
    let ppf = Format.formatter_of_buffer b in
    f ppf;
    Format.pp_print_flush ppf ();
    Buffer.contents b
  end
  else begin
    pen_busy := true;
    let finish () =
      (try Format.pp_print_flush pen () with _ -> ());
      pen_busy := false;
      let text = Buffer.contents page in
      if Buffer.length page > 1_000_000 then Buffer.reset page else Buffer.clear page;
      text
    in
    match f pen with
    | () -> finish ()
    | exception e ->
        ignore (finish ());
        raise e
  end

let native = Sys.backend_type = Sys.Native

(* The native toplevel compiles phrase n as unit TOPn and prints exceptions with that name before theirs. *)
let without_units s =
  if not native then s
  else begin
    let b = Buffer.create (String.length s) in
    let n = String.length s in
    let digit c = c >= '0' && c <= '9' in
    let rec copy i =
      if i < n then
        if i + 4 < n && String.sub s i 3 = "TOP" && digit s.[i + 3] then begin
          let j = ref (i + 3) in
          while !j < n && digit s.[!j] do incr j done;
          if !j < n && s.[!j] = '.' then copy (!j + 1)
          else begin
            Buffer.add_string b (String.sub s i (!j - i));
            copy !j
          end
        end
        else begin
          Buffer.add_char b s.[i];
          copy (i + 1)
        end
    in
    copy 0;
    Buffer.contents b
  end

let show_value v = without_units (with_buffer (fun ppf -> !Toploop.print_out_value ppf v))
let show_type t = with_buffer (fun ppf -> Shim.print_out_type ppf t)

(* effects: a phrase was begun, since the keeper was forked, that must not run twice. *)
let effects = ref false

(* ---- phrases --------------------------------------------------------------------------------------------- *)

let phrases : value list ref = ref []

let note_phrase start stop kind arg =
  phrases := D [ ("start", I start); ("stop", I stop); ("kind", S kind); ("arg", S arg) ] :: !phrases

let clip_backtrace s = if String.length s > 8192 then String.sub s 0 8192 else s

(* execute runs one typed phrase; the exception of a failing one was given to the outcome hook, and its
   backtrace to the formatter. *)
let execute print phr =
  raised := None;
  let b = Buffer.create 64 in
  let ppf = Format.formatter_of_buffer b in
  match Toploop.execute_phrase print ppf phr with
  | true -> None
  | false -> (
      Format.pp_print_flush ppf ();
      match !raised with
      | Some e -> Some (runtime ~backtrace:(clip_backtrace (Buffer.contents b)) e)
      | None -> failed "typecheck" (String.trim (Buffer.contents b)))
  | exception e -> Some (failure_of_exn e)

let quiet text =
  let lexbuf = Lexing.from_string text in
  let v = !last_value and t = !last_type in
  let r = execute false (!Toploop.parse_toplevel_phrase lexbuf) in
  last_value := v;
  last_type := t;
  r

(* teed runs f while what it prints on the formatter is also kept. *)
let teed ppf f =
  Format.pp_print_flush ppf ();
  let old = Format.pp_get_formatter_out_functions ppf () in
  let kept = Buffer.create 80 in
  Format.pp_set_formatter_out_functions ppf
    {
      old with
      Format.out_string =
        (fun s p n ->
          Buffer.add_substring kept s p n;
          old.Format.out_string s p n);
      out_newline = (fun () -> Buffer.add_char kept '\n'; old.Format.out_newline ());
      out_spaces = (fun n -> Buffer.add_string kept (String.make n ' '); old.Format.out_spaces n);
      out_indent = (fun n -> Buffer.add_string kept (String.make n ' '); old.Format.out_indent n);
    };
  let restore () =
    (try Format.pp_print_flush ppf () with _ -> ());
    Format.pp_set_formatter_out_functions ppf old
  in
  match f () with
  | r ->
      restore ();
      (r, Buffer.contents kept)
  | exception e ->
      restore ();
      raise e

(* heard runs a directive and keeps what it says: directives print their failures, the older compilers' on standard
   output, the newer ones' on standard error. There a warning may stand too, which is no failure. *)
let heard f =
  let before = !diagnostics in
  let (r, complaint), said = teed Format.std_formatter (fun () -> teed Format.err_formatter f) in
  (r, if !diagnostics == before then said ^ complaint else said)

let starts_with prefix s =
  String.length s >= String.length prefix && String.sub s 0 (String.length prefix) = prefix

(* gave_up tells whether the compiler, which has said why, meant to end the process. *)
let gave_up f = starts_with "Compenv.Exit_with_status" f.message

let contains part s =
  let n = String.length part in
  let rec at i = i + n <= String.length s && (String.sub s i n = part || at (i + 1)) in
  at 0

(* These print nothing when they succeed. *)
let silent_directives = [ "load"; "load_rec"; "install_printer"; "remove_printer"; "cd"; "directory"; "remove_directory" ]

let findlib_ready = ref false
let findlib_directives =
  [ "require"; "list"; "thread"; "camlp4o"; "camlp4r"; "predicates"; "ppx"; "help"; "unix" ]

let replaced part other s =
  let n = String.length part and b = Buffer.create (String.length s) in
  let rec copy i =
    if i + n <= String.length s && String.sub s i n = part then begin
      Buffer.add_string b other;
      copy (i + n)
    end
    else if i < String.length s then begin
      Buffer.add_char b s.[i];
      copy (i + 1)
    end
  in
  copy 0;
  Buffer.contents b

(* findlib's start file takes a toplevel whose stack has a limit for bytecode, which is wrong since OCaml 5; and it looks
   by a phrase whether findlib is there, which the native toplevel complains of when it is not. *)
let know_native text =
  if not native then text
  else
    replaced "(Gc.get ()).Gc.stack_limit = 0" "Sys.backend_type = Sys.Native" text
    |> replaced "exec_test \"Topfind.reset;;\"" "ignore exec_test; false"

(* load_findlib makes findlib's directives known, without leaving the names its start file defines. *)
let load_findlib () =
  if !findlib_ready then None
  else begin
    let env = !Toploop.toplevel_env in
    let sink = Format.make_formatter (fun _ _ _ -> ()) ignore in
    let ok =
      match Load_path.find "topfind" with
      | exception Not_found -> false
      | file -> (
          match
            let ic = open_in_bin file in
            let text = really_input_string ic (in_channel_length ic) in
            close_in ic;
            let text = know_native text in
            let lexbuf = Lexing.from_string text in
            Location.init lexbuf "topfind";
            (* Its last phrase announces itself. *)
            List.for_all
              (fun phr ->
                match phr with
                | Parsetree.Ptop_def [] -> true
                | _ -> ( match Toploop.execute_phrase false sink phr with r -> r))
              (!Toploop.parse_use_file lexbuf)
          with
          | r -> r
          | exception _ -> false)
    in
    let v = !last_value and t = !last_type in
    let ok =
      ok
      && quiet
           "let () = Topfind.log := ignore; Topfind.add_predicates [\"mt\"; \"mt_posix\"]; Topfind.don't_load [\"unix\"; \"stdlib\"];;"
         = None
    in
    last_value := v;
    last_type := t;
    Toploop.toplevel_env := env;
    findlib_ready := ok;
    if ok then None
    else
      failed "runtime"
        "findlib is not available to this toplevel: install ocaml-findlib and libfindlib-ocaml-dev (Debian) or ocamlfind (opam)"
  end

(* A missing package is an exception of findlib's, printed as the toplevel prints any exception. *)
let package_failure f =
  let prefix = "Fl_package_base.No_such_package(\"" in
  if starts_with prefix f.message then
    let n = String.length prefix in
    let stop = try String.index_from f.message n '"' with Not_found -> String.length f.message in
    let text = "No such package: " ^ String.sub f.message n (stop - n) in
    (print_endline text; { f with message = text; backtrace = "" })
  else f

let split_words s =
  List.filter (( <> ) "") (String.split_on_char ' ' (String.map (fun c -> if c = ',' || c = '\t' || c = '\n' then ' ' else c) s))

let require names =
  match load_findlib () with
  | Some f -> Some f
  | None -> (
      let list = String.concat "; " (List.map (Printf.sprintf "%S") (split_words names)) in
      let r, said = heard (fun () -> quiet (Printf.sprintf "let () = Topfind.load_deeply [%s];;" list)) in
      match r with
      | Some f when gave_up f && String.trim said <> "" -> failed "runtime" (String.trim said)
      | Some f -> Some (package_failure f)
      | None when contains "rror" said || contains "Cannot find file" said || contains "Reference to undefined" said ->
          failed "runtime" (String.trim said)
      | None -> None)

let rec blank_from text i =
  i >= String.length text || ((match text.[i] with ' ' | '\t' | '\n' | '\r' -> true | _ -> false) && blank_from text (i + 1))

(* ends_phrase tells whether the text ends with a terminator; where it does not, one is added. *)
let ends_phrase text =
  let rec last i = if i >= 0 && (match text.[i] with ' ' | '\t' | '\n' | '\r' -> true | _ -> false) then last (i - 1) else i in
  let i = last (String.length text - 1) in
  i >= 1 && text.[i] = ';' && text.[i - 1] = ';'

(* run_text executes phrases one at a time from the text; as_file parses it as a file first, where phrases need
   no terminator. It stops at the first failure. *)
let rec run_text ~name ~as_file ~note text =
  let lexbuf = Lexing.from_string text in
  Location.init lexbuf name;
  let outer = !Location.input_name in
  Location.input_name := name;
  let finish r =
    Location.input_name := outer;
    r
  in
  finish
    (if as_file then
       match !Toploop.parse_use_file lexbuf with
       | exception e -> Some (failure_of_exn e)
       | all -> run_all ~note (String.length text) all
     else run_each ~note ~text lexbuf)

and run_each ~note ~text lexbuf =
  let start = lexbuf.Lexing.lex_curr_p.Lexing.pos_cnum in
  if blank_from text start then None
  else
  match !Toploop.parse_toplevel_phrase lexbuf with
  | exception End_of_file -> None
  | exception e -> Some (failure_of_exn e)
  | phr -> (
      let stop = lexbuf.Lexing.lex_curr_p.Lexing.pos_cnum in
      match run_phrase phr with
      | Some f -> Some f
      | None ->
          if note then note_kind start stop phr;
          run_each ~note ~text lexbuf)

and run_all ~note total = function
  | [] -> None
  | phr :: rest -> (
      match run_phrase phr with
      | Some f -> Some f
      | None ->
          (if note then
             let start, stop = span phr in
             if stop > start then note_kind start stop phr);
          run_all ~note total rest)

and span = function
  | Parsetree.Ptop_dir d -> (
      ( d.pdir_loc.loc_start.pos_cnum,
        match d.pdir_arg with
        | Some a -> a.pdira_loc.loc_end.pos_cnum
        | None -> d.pdir_loc.loc_end.pos_cnum ))
  | Parsetree.Ptop_def items ->
      List.fold_left
        (fun (a, z) (i : Parsetree.structure_item) ->
          let s = i.pstr_loc.loc_start.pos_cnum and e = i.pstr_loc.loc_end.pos_cnum in
          ((if a < 0 then s else min a s), max z e))
        (-1, -1) items

and note_kind start stop = function
  | Parsetree.Ptop_dir d ->
      let arg =
        match d.pdir_arg with Some { pdira_desc = Parsetree.Pdir_string s; _ } -> s | _ -> ""
      in
      note_phrase start stop ("#" ^ d.pdir_name.txt) arg
  | Parsetree.Ptop_def [] -> note_phrase start stop "empty" ""
  | Parsetree.Ptop_def [ { pstr_desc = Parsetree.Pstr_eval _; _ } ] -> note_phrase start stop "expr" ""
  | Parsetree.Ptop_def _ -> note_phrase start stop "def" ""

and run_phrase phr =
  match phr with
  | Parsetree.Ptop_def [] -> None
  | _ ->
      Effects.around !Toploop.toplevel_env phr ~reached:(fun () -> effects := true) (fun () -> run_one phr)

and run_one phr =
  match phr with
  | Parsetree.Ptop_dir d -> directive d phr
  | _ -> (
      match Toploop.preprocess_phrase Format.err_formatter phr with
      | phr -> at phr (execute true phr)
      | exception e -> Some (failure_of_exn e))

(* An exception without frames of the session happened somewhere in its phrase. *)
and at phr failure =
  match (failure, phr) with
  | Some ({ phase = "runtime"; where = N; broke = false; _ } as f), Parsetree.Ptop_def (first :: _ as items) ->
      let last = List.nth items (List.length items - 1) in
      let whole = { first.Parsetree.pstr_loc with Location.loc_end = last.Parsetree.pstr_loc.Location.loc_end } in
      Some { f with where = location whole }
  | _ -> failure

and directive d phr =
  let name = d.pdir_name.txt in
  let where = location d.pdir_loc in
  match (name, Option.map (fun (a : Parsetree.directive_argument) -> a.pdira_desc) d.pdir_arg) with
  | ("quit" | "exit"), _ -> failed "runtime" "Compenv.Exit_with_status(0)"
  | "use", Some (Parsetree.Pdir_string file) -> use file
  | "require", Some (Parsetree.Pdir_string names) -> require names
  | ("load" | "load_rec"), Some (Parsetree.Pdir_string file) when Filename.basename file = "unix.cma" -> None
  | _ -> (
      let ready =
        if List.mem name findlib_directives && not (Shim.is_directive name) then load_findlib () else None
      in
      match ready with
      | Some f -> Some f
      | None -> (
          let phase = if name = "load" || name = "load_rec" || name = "mod_use" then "runtime" else "typecheck" in
          match heard (fun () -> execute true phr) with
          | exception e -> Some (failure_of_exn e)
          | Some f, said when gave_up f && String.trim said <> "" -> failed ~where phase (String.trim said)
          | Some f, _ -> Some (if f.where = N && f.phase = "typecheck" then { f with where } else f)
          | None, said ->
              let text = String.trim said in
              match !raised with
              | Some e when starts_with "load" name -> Some (runtime e) (* by the code of the archive *)
              | _ ->
              if
                text <> ""
                && (List.mem name silent_directives
                   || starts_with "Unknown" text || starts_with "Unbound" text
                   || starts_with "Cannot find file" text
                   || starts_with "Wrong type of argument" text
                   || (starts_with "show" name && contains "\nError: " text)
                   || ((name = "trace" || name = "untrace")
                      && not (List.exists (fun s -> contains s text) [ "now traced"; "no longer traced"; "already traced" ]))
                   || (name = "mod_use" && contains "rror" text))
              then failed ~where phase text
              else None))

and use file =
  match if Sys.file_exists file then file else Load_path.find file with
  | exception Not_found ->
      let text = Printf.sprintf "Cannot find file %s." file in
      print_endline text;
      failed "runtime" text
  | path -> (
      match
        let ic = open_in_bin path in
        match
          let b = Buffer.create 4096 in
          let chunk = Bytes.create 4096 in
          let rec all () =
            match input ic chunk 0 4096 with
            | 0 -> Buffer.contents b
            | n ->
                Buffer.add_subbytes b chunk 0 n;
                all ()
          in
          all ()
        with
        | text ->
            close_in_noerr ic;
            text
        | exception e ->
            close_in_noerr ic;
            raise e
      with
      | exception Sys_error text -> failed "typecheck" ("I/O error: " ^ text)
      | text -> run_text ~name:path ~as_file:true ~note:false (blank_shebang text))

(* The first line of a script is no OCaml; blanking it keeps the line numbers. *)
and blank_shebang text =
  if starts_with "#!" text then
    match String.index_opt text '\n' with
    | Some i -> String.make i ' ' ^ String.sub text i (String.length text - i)
    | None -> ""
  else text

(* ---- operations ------------------------------------------------------------------------------------------ *)

let failure_value = function
  | None -> N
  | Some f ->
      D
        [
          ("phase", S f.phase);
          ("loc", f.where);
          ("message", S (without_units f.message));
          ("related", L (List.map (fun s -> S s) f.related));
          ("backtrace", S f.backtrace);
          ("broke", I (if f.broke then 1 else 0));
        ]

let option_value f = function None -> N | Some v -> S (f v)

let clip s = if String.length s > 33554432 then String.sub s 0 33554432 else s

(* guarded runs code of the session: interrupts become exceptions inside it and are swallowed at its edge. *)
let guarded f =
  let attempt () =
    match
      running := true;
      f ()
    with
    | r ->
        running := false;
        r
    | exception e ->
        running := false;
        Some (failure_of_exn e)
  in
  (* A second interrupt may arrive while the first is being turned into a failure. *)
  match attempt () with
  | r -> r
  | exception e ->
      running := false;
      Some (failure_of_exn e)

(* keep_children: a native phrase is made by programs, and a process that ignores its children never learns how they
   ended. *)
let keep_children () =
  if native then
    match Sys.signal Sys.sigchld Sys.Signal_default with
    | Sys.Signal_handle _ as own -> set_signal Sys.sigchld own
    | _ -> ()
    | exception _ -> ()

let evaluate request f =
  last_value := None;
  last_type := None;
  phrases := [];
  diagnostics := [];
  interrupted := false;
  (* Every warning but the first of a process is preceded by an empty line; each evaluation starts anew. *)
  Location.reset ();
  watch_interrupts ();
  keep_children ();
  let failure = guarded f in
  let value = ref N and ty = ref N in
  let failure2 =
    guarded (fun () ->
        ty := option_value show_type !last_type;
        value := option_value (fun v -> clip (show_value v)) !last_value;
        None)
  in
  let failure = match failure with None -> failure2 | f -> f in
  flush_output ();
  last_value := None;
  last_type := None;
  raised := None;
  seq := int_field request "seq";
  D
    [
      ("op", S "eval");
      ("seq", I !seq);
      ("value", !value);
      ("type", !ty);
      ("error", failure_value failure);
      ("diagnostics", L (List.rev !diagnostics));
      ("phrases", L (List.rev !phrases));
    ]

let eval request =
  let text = text_field request "source" in
  let name = match text_field request "name" with "" -> "<eval>" | s -> s in
  let as_file = int_field request "as_file" = 1 in
  evaluate request (fun () ->
      if as_file then run_text ~name ~as_file ~note:true (blank_shebang text)
      else run_text ~name ~as_file ~note:true (if ends_phrase text then text else text ^ "\n;;"))

(* Where native phrases run as bytecode, so does the archive, if it stands beside the native one. *)
let loadable path =
  if native || not (Filename.check_suffix path ".cmxs") then path
  else
    let base = Filename.chop_suffix path ".cmxs" in
    match List.filter Sys.file_exists [ base ^ ".cma"; base ^ ".cmo" ] with
    | found :: _ -> found
    | [] -> path

let load request =
  let path = loadable (text_field request "path") in
  evaluate request (fun () ->
      let text = Printf.sprintf "#directory %S;;\n#load %S;;" (Filename.dirname path) path in
      run_text ~name:"<load>" ~as_file:false ~note:false text)

let preview env path (vd : Types.value_description) =
  match vd.val_kind with
  | Types.Val_prim _ -> N
  | _ when (match Obj.tag (Toploop.eval_value_path env path) with t -> t = Obj.closure_tag || t = Obj.infix_tag | exception _ -> false) -> S "<fun>"
  | _ -> (
      let depth = !Toploop.max_printer_depth and steps = !Toploop.max_printer_steps in
      let restore () =
        Toploop.max_printer_depth := depth;
        Toploop.max_printer_steps := steps
      in
      Toploop.max_printer_depth := min depth 5;
      Toploop.max_printer_steps := min steps 30;
      match with_buffer (fun ppf -> Toploop.print_value env (Toploop.eval_value_path env path) ppf vd.val_type) with
      | s ->
          restore ();
          S (if String.length s > 400 then String.sub s 0 400 else s)
      | exception Sys.Break ->
          restore ();
          raise Sys.Break
      | exception _ ->
          restore ();
          N)

let binding ?(kind = "value") name env path (vd : Types.value_description) =
  D
    [
      ("name", S name);
      ("kind", S kind);
      ("type", S (with_buffer (fun ppf -> Printtyp.type_scheme ppf vd.val_type)));
      ("loc", location vd.val_loc);
      ("preview", preview env path vd);
    ]

let env request =
  let all = int_field request "all" = 1 in
  let files = match field request "files" with L l -> List.map (function S s -> s | _ -> "") l | _ -> [] in
  let filter = text_field request "filter" in
  let env = !Toploop.toplevel_env in
  let seen = Hashtbl.create 64 in
  let found = ref [] in
  let failure =
    guarded (fun () ->
        Shim.fold_values
          (fun name path vd () ->
            if
              (not (Hashtbl.mem seen name))
              && name <> "_$"
              && (all || List.mem vd.Types.val_loc.Location.loc_start.Lexing.pos_fname files)
              && (filter = "" || contains filter name)
            then
              match Shim.find_value (Longident.Lident name) env with
              | current, vd when Path.same current path ->
                  Hashtbl.replace seen name ();
                  found := binding name env path vd :: !found
              | _ -> ()
              | exception Not_found -> ())
          env ();
        None)
  in
  flush_output ();
  D [ ("op", S "env"); ("bindings", L !found); ("error", failure_value failure) ]

(* An identifier is parsed as an expression, so that M.x and ( + ) are found as they are written. *)
let ident_of text =
  let parse s =
    match (Parse.expression (Lexing.from_string s)).Parsetree.pexp_desc with
    | Parsetree.Pexp_ident { txt; _ } -> Some txt
    | _ -> None
    | exception _ -> None
  in
  match parse text with Some l -> Some l | None -> if text = "" then None else parse ("( " ^ text ^ " )")

let shown name =
  match teed Format.std_formatter (fun () -> quiet (Printf.sprintf "#show %s;;" name)) with
  | Some _, _ -> N
  | None, said ->
      let text = String.trim said in
      if text = "" || starts_with "Unknown" text then N
      else
        D
          [
            ("name", S name);
            ("kind", S "item");
            ("type", S (if String.length text > 8192 then String.sub text 0 8192 else text));
            ("loc", N);
            ("preview", N);
          ]

let is_item_name name =
  name <> ""
  && (not (starts_with "_" name))
  && (let ok = ref true in
      String.iter
        (function 'a' .. 'z' | 'A' .. 'Z' | '0' .. '9' | '_' | '\'' | '.' -> () | _ -> ok := false)
        name;
      !ok)
  && match name.[0] with 'a' .. 'z' | 'A' .. 'Z' -> true | _ -> false

(* silenced points descriptor 1 elsewhere: looking something up prints nothing. *)
let silenced f =
  flush_output ();
  let ppf = Format.std_formatter in
  let old = Format.pp_get_formatter_out_functions ppf () in
  Format.pp_set_formatter_out_functions ppf
    { old with Format.out_string = (fun _ _ _ -> ()); out_newline = ignore; out_spaces = ignore; out_indent = ignore; out_flush = ignore };
  match f () with
  | r ->
      Format.pp_set_formatter_out_functions ppf old;
      r
  | exception e ->
      Format.pp_set_formatter_out_functions ppf old;
      raise e

let lookup request =
  let name = text_field request "name" in
  let found = ref N in
  let failure =
    guarded (fun () ->
        let env = !Toploop.toplevel_env in
        (match ident_of name with
        | Some lid -> (
            match Shim.find_value lid env with
            | path, vd -> found := binding name env path vd
            | exception (Sys.Break as e) -> raise e
            | exception _ -> ())
        | None -> ());
        if !found = N && is_item_name name then found := silenced (fun () -> shown name);
        None)
  in
  flush_output ();
  D [ ("op", S "lookup"); ("binding", !found); ("error", failure_value failure) ]

(* ---- the back-channel ------------------------------------------------------------------------------------- *)

let back_id = ref 0

let ask fields =
  incr back_id;
  let id = !back_id in
  send (D (("op", S "back") :: ("id", I id) :: fields));
  let rec answer () =
    let r = receive () in
    if text_field r "op" = "back" && int_field r "id" = id then r else answer ()
  in
  let r = answer () in
  match field r "failure" with S text -> failwith text | _ -> r

let set_back on =
  if on then begin
    (Topup_back.read :=
       fun path -> Bytes.of_string (text_field (ask [ ("what", S "read"); ("path", S path) ]) "data"));
    Topup_back.write :=
      fun path data -> ignore (ask [ ("what", S "write"); ("path", S path); ("data", S (Bytes.to_string data)) ])
  end
  else begin
    Topup_back.read := Topup_back.local_read;
    Topup_back.write := Topup_back.local_write
  end

(* ---- the keeper -------------------------------------------------------------------------------------------- *)

(* A keeper is a fork that holds the state as it was and waits. When the engine dies, the server wakes it, and it
   goes on as the engine. It leads its own process group, so that killing the engine's spares it. *)

let keeper = ref 0
let stale = ref false (* nothing was evaluated yet *)
let cost = ref 0.
let fork_time = ref 0.0005

(* life counts the times that this state was brought back. *)
let life = ref 0
let keepers_wanted = ref true

let rec reap pid =
  match Unix.waitpid [] pid with
  | _ -> ()
  | exception Unix.Unix_error (Unix.EINTR, _, _) -> reap pid
  | exception _ -> ()

let drop pid =
  if pid > 0 then begin
    (try Unix.kill pid Sys.sigkill with _ -> ());
    reap pid
  end

let drop_keeper () =
  let pid = !keeper in
  keeper := 0;
  drop pid

let ready t =
  match Unix.select [ requests ] [] [] t with
  | [], _, _ -> false
  | _ -> true
  | exception Unix.Unix_error (Unix.EINTR, _, _) -> false

(* wait_for_call returns when the server calls this process by its number, written in eight digits. Another that waits
   at the same pipe without the server's knowledge says so and ends. *)
let rec wait_for_call fd =
  let b = Bytes.create 8 in
  match Unix.read fd b 0 8 with
  | 8 ->
      if Bytes.to_string b <> Printf.sprintf "%08d" (Unix.getpid ()) then begin
        send (D [ ("op", S "stray") ]);
        die ()
      end
  | _ -> die ()
  | exception Unix.Unix_error (Unix.EINTR, _, _) -> wait_for_call fd
  | exception _ -> die ()

(* After a fork every page that the next evaluation writes would be copied first, while its caller waits. Here they
   are written beforehand: the compiler's by an evaluation without effect, the young heap's by filling it. *)
let own_pages () =
  (* Native phrases are not for nothing: each is compiled, and stays. *)
  if not native then (try ignore (quiet "0;;") with _ -> ());
  for _ = 1 to 1024 do
    ignore (Sys.opaque_identity (Bytes.create 248))
  done;
  Gc.minor ()

(* A request that the dead engine had not read, or not wholly, was answered by the report of its death. *)
let rec forget_requests () =
  held_from := 0;
  held_to := 0;
  if ready 0. then begin
    (match Unix.read requests chunk 0 (Bytes.length chunk) with 0 -> die () | _ -> () | exception _ -> ());
    forget_requests ()
  end

let fork_keeper () =
  if !keepers_wanted then begin
    let old = !keeper in
    Gc.minor ();
    let t0 = Unix.gettimeofday () in
    match Unix.fork () with
    | exception _ ->
        drop_keeper ();
        keepers_wanted := false
    | 0 ->
        (try ignore (Unix.setsid ()) with _ -> ());
        keeper := 0;
        wait_for_call wakeup;
        forget_requests ();
        owner := Unix.getpid ();
        incr life;
        stale := true;
        (* The next death may follow at once: there is a keeper again before anything else. *)
        effects := true;
        cost := 0.;
        send (D [ ("op", S "recovered"); ("pid", I !owner); ("seq", I !seq) ])
    | pid ->
        fork_time := Unix.gettimeofday () -. t0;
        keeper := pid;
        stale := false;
        effects := false;
        cost := 0.;
        send (D [ ("op", S "keeper"); ("engine", I !owner); ("pid", I pid); ("seq", I !seq) ]);
        (* There is always one: the old one ends when the server knows the new one. *)
        if old > 0 then (try Unix.kill old Sys.sigkill with _ -> ());
        own_pages ();
        if old > 0 then reap old
  end
  else stale := false

(* replay_limit is how long evaluations may have taken, in seconds, that would be evaluated again. *)
let replay_limit = 0.04

(* due tells whether the keeper is renewed before anything else is evaluated: what it lacks must not run twice, or took
   long. *)
let due () = !stale && (!effects || !cost > replay_limit)

(* idle waits for the next request; else a keeper is forked once the session is quiet. *)
let idle () =
  while due () || (!stale && not (ready (min 0.05 (max 0.002 (4. *. !fork_time))))) do
    fork_keeper ()
  done

(* ---- the origin -------------------------------------------------------------------------------------------- *)

(* Before anything is evaluated the server asks for a fork that stays as it is. To empty the session, it ends the engine
   and wakes this one; it goes on as the engine, and leaves another in its place. *)
let rec keep_origin () =
  let tell pid = send (D [ ("op", S "origin"); ("engine", I !owner); ("pid", I pid) ]) in
  if not !keepers_wanted then tell 0
  else
    match Unix.fork () with
    | exception _ -> tell 0
    | 0 ->
        (try ignore (Unix.setsid ()) with _ -> ());
        wait_for_call rewind;
        forget_requests ();
        owner := Unix.getpid ();
        send (D [ ("op", S "recovered"); ("pid", I !owner); ("seq", I 0) ]);
        keep_origin ()
    | pid ->
        tell pid;
        own_pages ()

(* ---- the loop ---------------------------------------------------------------------------------------------- *)

let timed f =
  let t0 = Unix.gettimeofday () in
  let r = f () in
  cost := !cost +. (Unix.gettimeofday () -. t0);
  stale := true;
  r

(* batch evaluates sources one after the other and answers each without waiting for the server. It ends at a failure
   or an interrupt, which "more" tells; "out" and "err" tell where the output of each ends. *)
let batch request =
  let size fd = try (Unix.LargeFile.fstat fd).Unix.LargeFile.st_size with _ -> -1L in
  let born = !life in
  let rec each seq = function
    | [] -> ()
    | source :: rest ->
        let reply = timed (fun () -> eval (D [ ("seq", I seq); ("source", source) ])) in
        if Unix.getpid () <> !owner then die ();
        check_descriptors flush_output;
        let more = rest <> [] && field reply "error" = N && not !interrupted in
        let ends =
          [
            ("more", I (if more then 1 else 0));
            ("out", I (Int64.to_int (size Unix.stdout)));
            ("err", I (Int64.to_int (size Unix.stderr)));
          ]
        in
        send (match reply with D fields -> D (fields @ ends) | other -> other);
        if more then begin
          if due () then fork_keeper ();
          if !life = born then each (seq + 1) rest
        end
  in
  each (int_field request "seq") (match field request "sources" with L l -> l | _ -> [])

let serve request =
  match text_field request "op" with
  | "eval" ->
      set_back (int_field request "back" = 1);
      timed (fun () -> eval request)
  | "batch" ->
      set_back (int_field request "back" = 1);
      batch request;
      N
  | "load" ->
      effects := true;
      timed (fun () -> load request)
  | "env" -> env request
  | "lookup" -> lookup request
  | "back" -> N
  | "origin" ->
      keep_origin ();
      N
  | op -> D [ ("op", S op); ("error", S "unknown operation") ]

let rec loop () =
  idle ();
  let request = receive () in
  let reply = serve request in
  (* A process that the session's code forked ends here: it must never answer in its parent's place. *)
  if Unix.getpid () <> !owner then die ();
  check_descriptors flush_output;
  if reply <> N then send reply;
  loop ()

let () =
  List.iter (fun fd -> try Unix.set_close_on_exec fd with _ -> ()) [ requests; replies; wakeup; rewind ];
  install_signals ();
  (* The session does not see how it was started. *)
  let lib = if Array.length Sys.argv > 1 then Sys.argv.(1) else "" in
  Clflags.include_dirs := (match Sys.getenv_opt "OCAML_TOPLEVEL_PATH" with Some d -> [ d; lib ] | None -> [ lib ]) @ Shim.linked;
  Clflags.debug := true;
  if native then Clflags.native_code := true;
  Printexc.record_backtrace true;
  Toploop.set_paths ();
  Shim.init_path ();
  Toploop.initialize_toplevel_env ();
  Sys.interactive := false;
  Toploop.max_printer_depth := 10;
  Toploop.max_printer_steps := 200;
  Location.input_name := "<eval>";
  keepers_wanted := not (Array.mem "-no-keeper" Sys.argv);
  send (D [ ("op", S "ready"); ("pid", I (Unix.getpid ())); ("version", S Sys.ocaml_version) ]);
  try loop () with
  | End_of_file ->
      drop_keeper ();
      flush_output ();
      die ()
  | _ -> die ()
