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
