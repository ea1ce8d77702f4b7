/** `lathe/client` without a host: what it refuses, and what it reads again. */
import { describe, expect, it } from 'vitest';
import { Lathe } from '../../src/client/index.ts';

function client(lines: readonly object[] = []) {
  const requests: string[] = [];
  const answer: typeof fetch = (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input);
    requests.push(`${init?.method ?? 'GET'} ${url.pathname.slice('/agent/v1'.length)}${url.search}`);
    const after = Number(url.searchParams.get('after') ?? -1);
    const text = lines
      .filter((_, seq) => seq > after)
      .map((line) => `${JSON.stringify(line)}\n`)
      .join('');
    return Promise.resolve(new Response(text === '' ? '{}' : text));
  };
  return { lathe: new Lathe({ fetch: answer }), requests };
}
const wrong = (value: unknown) => value as never;

describe('arguments', () => {
  it('of another form are refused, and nothing is sent', async () => {
    const { lathe, requests } = client();
    const { pending, tasks } = lathe;
    await expect(pending.approve('p1', wrong('sha256:00'))).rejects.toThrow(
      new TypeError('pending.approve: expected an object with digest, got sha256:00'),
    );
    await expect(pending.approve('p1', wrong({ digets: 'x' }))).rejects.toThrow(
      'pending.approve: there is no option digets; expected digest',
    );
    await expect(pending.approve('p1', wrong({ digest: 7 }))).rejects.toThrow(
      'digest: expected a text, got 7',
    );
    await expect(pending.approve(wrong(undefined))).rejects.toThrow('id: expected a text, got undefined');
    await expect(pending.discard('p1', wrong('not now'))).rejects.toThrow(
      'pending.discard: expected an object with note, got not now',
    );
    await expect(pending.edit('p1', wrong({ content: 'x' }))).rejects.toThrow('content: expected a text');
    await expect(tasks.start({ prompt: 'x', agent: 'y' }, wrong({ key: 'z' }))).rejects.toThrow(TypeError);
    await expect(tasks.list(wrong('running'))).rejects.toThrow('expected an object with limit, state');
    expect(() => tasks.events('t1', wrong(3))).toThrow(TypeError);
    expect(() => new Lathe(wrong('http://127.0.0.1:9'))).toThrow('expected an object with url, token, fetch');
    expect(requests).toEqual([]);
    await pending.approve('p1', { digest: 'sha256:00' });
    await pending.discard('p1', { note: 'not now' });
    expect(requests).toEqual(['POST /pending/p1/approve?digest=sha256%3A00', 'POST /pending/p1/discard']);
  });
});

describe('a stream', () => {
  const events = ['start', 'turn', 'delta', 'answer'].map((type, seq) => ({
    type,
    seq,
    task_id: 't1',
    text: 'Hi',
  }));

  it('goes on where a loop was left, and after its end gives all events again', async () => {
    const { lathe, requests } = client(events);
    const task = await lathe.tasks.start({ prompt: 'x', agent: 'y' });
    const read = async (count = 100) => {
      const seqs: number[] = [];
      for await (const { seq } of task) {
        seqs.push(seq);
        if (seqs.length === count) break;
      }
      return seqs;
    };
    expect(await read(2)).toEqual([0, 1]);
    expect(await read()).toEqual([2, 3]);
    expect(await task.answer()).toBe('Hi');
    expect(await read()).toEqual([0, 1, 2, 3]);
    expect(requests).toEqual([
      'POST /tasks',
      'GET /tasks/t1/events?after=1',
      'GET /tasks/t1/events?after=-1',
    ]);
  });
});
