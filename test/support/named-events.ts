/** The frames of an event stream whose events have names: `event:` and then one line of `data:`. */
export async function readNamedEvents(
  response: Response,
): Promise<{ name: string; data: Record<string, unknown> }[]> {
  const frames = (await response.text()).split('\n\n').filter((frame) => frame !== '');
  return frames.map((frame) => {
    const [, name, json] = /^event: (\S+)\ndata: (.*)$/.exec(frame) ?? [];
    if (name === undefined || json === undefined) throw new Error(`not a named event: ${frame}`);
    return { name, data: JSON.parse(json) as Record<string, unknown> };
  });
}

/** Waits for what happens soon. */
export async function until(done: () => boolean): Promise<void> {
  for (let tries = 0; tries < 300 && !done(); tries++)
    await new Promise((resolve) => setTimeout(resolve, 10));
  if (!done()) throw new Error('it did not happen');
}
