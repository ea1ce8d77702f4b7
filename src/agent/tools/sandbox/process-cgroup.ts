import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { setTimeout as after } from 'node:timers/promises';

/** Parent folders of control groups with a process limit: cgroup v1 and v2. */
const cgroupParents = ['/sys/fs/cgroup/pids', '/sys/fs/cgroup'];
let createdCount = 0;

/** A control group with a process limit, for hosts that run as root, to which rlimits do not apply. */
export class ProcessCgroup {
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** @returns undefined when the group cannot be created */
  static create(place: string, processes: number): ProcessCgroup | undefined {
    createdCount += 1;
    const folder = `${place}/lathe-${process.pid}-${createdCount}`;
    try {
      mkdirSync(folder);
    } catch {
      return undefined;
    }
    try {
      writeFileSync(`${folder}/pids.max`, String(processes));
      return new ProcessCgroup(folder);
    } catch {
      rmdirSync(folder);
      return undefined;
    }
  }

  /** Folder in which groups can be created. Only for root; rlimits apply to other users. */
  static findParent(): string | undefined {
    if (process.getuid?.() !== 0) return undefined;
    return cgroupParents.find((place) => {
      const probe = ProcessCgroup.create(place, 1);
      if (probe) rmdirSync(probe.#folder);
      return probe !== undefined;
    });
  }

  /** Command prefix that starts a command in the group. */
  get commandPrefix(): string[] {
    return ['sh', '-c', 'echo $$ > "$0" && exec "$@"', `${this.#folder}/cgroup.procs`];
  }

  /** Removes the group. Retries, because ended processes may need a moment to disappear. */
  async remove(): Promise<void> {
    for (let attemptsLeft = 50; attemptsLeft > 0; attemptsLeft -= 1) {
      try {
        rmdirSync(this.#folder);
        return;
      } catch {
        await after(20);
      }
    }
  }
}
