// crowd forks N children that sleep, says so on stdout, and ends them all when
// its stdin is closed. The benchmark of the scanner measures on them.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv) {
	int n = argc > 1 ? atoi(argv[1]) : 0;
	pid_t parent = getpid();
	setpgid(0, 0);
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();
		if (pid < 0) {
			perror("fork");
			kill(0, SIGKILL);
		}
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				_exit(1);
			close(0);
			close(1);
			for (;;)
				pause();
		}
	}
	puts("ready");
	fflush(stdout);
	char c;
	while (read(0, &c, 1) > 0)
		;
	kill(0, SIGKILL);
	return 0;
}
