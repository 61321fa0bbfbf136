package layout

// This file holds the seven layouts.

// Names lists the layouts, the default first.
func Names() []string {
	return []string{"Dashboard", "Vertical", "Horizontal", "CPU Focus", "Memory Focus", "Network Focus", "Process Focus"}
}

// The sizes at which every layout changes its shape.
const (
	wideColumns, wideRows       = 100, 28
	compactColumns, compactRows = 60, 14
	tinyColumns, tinyRows       = 40, 8
)

func tree(name string, width, height int, w Wants) part {
	switch {
	case width < tinyColumns || height < tinyRows:
		return part{panel: Meters}
	case width < compactColumns || height < compactRows:
		return minimal()
	}
	body, ok := bodies[name]
	if !ok {
		body = dashboard
	}
	return rows(
		part{panel: Header, want: 1, least: 1},
		body(width, height, w),
		part{panel: Footer, want: 1, least: 1},
	)
}

// minimal is what every layout is on a small screen: figures in one line each
// and the processes.
func minimal() part {
	return rows(
		part{panel: Meters, want: 3, least: 2},
		part{panel: Processes, least: 3},
		part{panel: Footer, want: 1, least: 1, rank: 1},
	)
}

var bodies = map[string]func(width, height int, w Wants) part{
	"Dashboard": dashboard, "Vertical": vertical, "Horizontal": horizontal,
	"CPU Focus": cpuFocus, "Memory Focus": memoryFocus, "Network Focus": networkFocus, "Process Focus": processFocus,
}

func rows(parts ...part) part    { return part{down: true, parts: parts} }
func columns(parts ...part) part { return part{parts: parts} }

func (p part) sized(want, least int) part { p.want, p.least = want, least; return p }
func (p part) weighing(n, least int) part { p.weight, p.least = n, least; return p }
func (p part) ranked(rank int) part       { p.rank = rank; return p }

func (p Panel) part() part { return part{panel: p} }

// cpuRows is the height of the CPU panel at a width, within a share of the screen.
func (w Wants) cpuRows(width, most int) int { return min(max(w.CPU(width), 5), max(most, 5)) }

// processes is the table, with the details beside or below it when they are open.
func processes(width int, w Wants) part {
	table := Processes.part().weighing(3, 5)
	if !w.Details {
		return table
	}
	if width >= 120 {
		return columns(table.weighing(3, 40), Details.part().weighing(2, 30).ranked(1))
	}
	return rows(table, Details.part().weighing(2, 5).ranked(1))
}

func dashboard(width, height int, w Wants) part {
	if width < wideColumns || height < wideRows {
		return rows(
			columns(CPU.part().weighing(3, 24), Memory.part().weighing(2, 22)).sized(min(w.cpuRows(width*3/5, height/3), 7), 5).ranked(1),
			columns(Network.part().weighing(1, 24), Disks.part().weighing(1, 24)).sized(min(max(w.Network, w.Disks, 4), 6), 3).ranked(2).onlyIf(height >= 30),
			processes(width, w).weighing(1, 5),
		)
	}
	side := rows(
		Groups.part().weighing(2, 4).ranked(1),
		Sessions.part().sized(w.Sessions, 3).ranked(3).onlyIf(w.Sessions > 0),
		Alerts.part().weighing(1, 4).ranked(2),
	)
	return rows(
		columns(CPU.part().weighing(3, 40), Memory.part().weighing(2, 30)).sized(w.cpuRows(width*3/5, height/3), 6),
		columns(Network.part().weighing(3, 28), Disks.part().weighing(3, 28), Pressure.part().weighing(2, 22).ranked(1)).sized(min(max(w.Network, w.Disks, 6), height/5), 5),
		columns(processes(width*2/3, w).weighing(7, 60), side.weighing(3, 34).ranked(1)).weighing(1, 8),
	)
}

// onlyIf makes a part that nobody wants vanish before any other.
func (p part) onlyIf(wanted bool) part {
	if !wanted {
		p.rank, p.across = 99, 1<<30
	}
	return p
}

func vertical(width, height int, w Wants) part {
	return rows(
		CPU.part().sized(w.cpuRows(width, height/4), 5),
		Memory.part().sized(6, 5).ranked(1),
		Pressure.part().sized(3, 3).ranked(5),
		Network.part().sized(min(w.Network, 6), 3).ranked(3),
		Disks.part().sized(min(w.Disks, 6), 3).ranked(4),
		Groups.part().sized(min(w.Groups, 7), 4).ranked(6),
		Sessions.part().sized(w.Sessions, 3).ranked(9).onlyIf(w.Sessions > 0),
		Alerts.part().sized(min(w.Alerts, 6), 3).ranked(7),
		processes(width, w).weighing(1, min(max(7, height/3), 14)),
	)
}

func horizontal(width, height int, w Wants) part {
	left := rows(
		CPU.part().weighing(3, 6),
		Memory.part().sized(9, 5).ranked(1),
		Pressure.part().sized(6, 4).ranked(2),
	)
	right := rows(
		Network.part().sized(max(w.Network, 6), 4).ranked(1),
		Disks.part().sized(max(w.Disks, 6), 4).ranked(2),
		Groups.part().weighing(2, 4),
		Sessions.part().sized(w.Sessions, 3).ranked(4).onlyIf(w.Sessions > 0),
		Alerts.part().weighing(1, 4).ranked(3),
	)
	return columns(
		left.weighing(3, 28).ranked(1),
		processes(width/2, w).weighing(5, 44),
		right.weighing(3, 30).ranked(2),
	)
}

func cpuFocus(width, height int, w Wants) part {
	return rows(
		CPU.part().weighing(5, 7),
		Pressure.part().sized(3, 3).ranked(1).onlyIf(height >= 20),
		processes(width, w).weighing(4, 6),
	)
}

func memoryFocus(width, height int, w Wants) part {
	return rows(
		columns(Memory.part().weighing(3, 40), Pressure.part().weighing(1, 26).ranked(1)).weighing(4, 7),
		columns(processes(width*2/3, w).weighing(2, 44), Groups.part().weighing(1, 34).ranked(1)).weighing(5, 6),
	)
}

func networkFocus(width, height int, w Wants) part {
	return rows(
		Network.part().weighing(5, 7),
		Disks.part().sized(min(w.Disks, 7), 4).ranked(1).onlyIf(height >= 22),
		processes(width, w).weighing(4, 6),
	)
}

func processFocus(width, height int, w Wants) part {
	return rows(
		Meters.part().sized(3, 1).ranked(1),
		processes(width, w).weighing(1, 6),
		Alerts.part().sized(min(w.Alerts, 5), 3).ranked(2).onlyIf(w.Alerts > 3 && height >= 24),
	)
}
