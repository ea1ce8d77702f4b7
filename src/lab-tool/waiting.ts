import type { LabWorld } from './world.ts';

const stepMs = 1000;

/** Tells on a terminal how long the host has been at work, where that takes a while. */
export async function whileWaiting<Answer>(
  world: LabWorld,
  what: string,
  work: Promise<Answer>,
): Promise<Answer> {
  const { stderr } = world;
  if (stderr.isTTY !== true) return await work;
  let seconds = 0;
  const tick = () => {
    seconds++;
    // A narrow terminal would wrap a longer line and keep every copy.
    stderr.write(`\r\u001b[2K${`${what}, ${seconds} s`.slice(0, (stderr.columns || 80) - 1)}`);
  };
  const timer = setInterval(tick, stepMs);
  try {
    return await work;
  } finally {
    clearInterval(timer);
    if (seconds > 0) stderr.write('\r\u001b[2K');
  }
}
