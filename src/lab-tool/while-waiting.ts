import type { ToolEnvironment } from './tool-environment.ts';

const tickMs = 1000;

/** Shows the elapsed time on a terminal while a request is running. */
export async function whileWaiting<Answer>(
  environment: ToolEnvironment,
  what: string,
  work: Promise<Answer>,
): Promise<Answer> {
  const { stderr } = environment;
  if (stderr.isTTY !== true) return await work;
  let seconds = 0;
  const tick = () => {
    seconds++;
    // A line longer than the terminal would wrap, and could not be erased.
    stderr.write(`\r\u001b[2K${`${what}, ${seconds} s`.slice(0, (stderr.columns || 80) - 1)}`);
  };
  const timer = setInterval(tick, tickMs);
  try {
    return await work;
  } finally {
    clearInterval(timer);
    if (seconds > 0) stderr.write('\r\u001b[2K');
  }
}
