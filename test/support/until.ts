/** Time limit after which a wait fails, long enough for slow machines. */
const limitMs = 120_000;

/** Waits until a condition holds, also in hooks, where `expect.poll` does not work. */
export async function until(holds: () => boolean | Promise<boolean>, what = String(holds)): Promise<void> {
  const end = performance.now() + limitMs;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Lets the event loop of this process turn, so that data its own sockets sent to each other has arrived. */
export async function eventLoopTurns(count = 50): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setTimeout(resolve, 1));
}
