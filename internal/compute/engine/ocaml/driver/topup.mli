(** Files of the side that asked for the evaluation. *)

val read_back : string -> bytes
val write_back : string -> bytes -> unit
