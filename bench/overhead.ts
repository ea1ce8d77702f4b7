import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { chatStream } from './chat-client.ts';
import { median, roundFigure } from './statistics.ts';

/** Cost of the host without the GPU, per token of a streamed chat answer. */
export interface OverheadFigures {
  readonly answerTokens: number;
  readonly promptTokens: number;
  readonly requests: number;
  /** Processor time of the host's process, including the cost of the request. */
  readonly cpuMsPerToken: number;
  /** Time from the request to the last byte at the client, divided by the tokens. */
  readonly wallMsPerToken: number;
  /** Processor time of a request for one token: HTTP, validation, template, tokenizer, admission. */
  readonly cpuMsPerRequest: number;
}

const answerTokens = 256;
const chat = {
  messages: [
    { role: 'system', content: 'You are a helpful assistant. Answer in plain words and short sentences.' },
    {
      role: 'user',
      content: 'Who went to the river, and what did they find there? Tell me the whole story.',
    },
    {
      role: 'assistant',
      content: 'The children went to the river one morning. They found a small red boat.',
    },
    { role: 'user', content: 'What did they do with the boat after they had found it? Please go on.' },
  ],
  temperature: 0.8,
  top_p: 0.95,
  seed: 1,
  stop: ['\n\nUser:'],
};

/**
 * Streams chat answers from a host whose GPU answers immediately. HTTP on loopback, validation, chat template,
 * tokenizer, scheduler, sampling setup, stop sequences and server-sent events are real. The encoding of GPU commands is
 * excluded.
 */
export async function measureOverhead(
  model: string,
  { adapter, requests }: { adapter: string | undefined; requests: number },
): Promise<OverheadFigures> {
  const script = new URL('./overhead-host.ts', import.meta.url);
  const child = fork(script, adapter === undefined ? [model] : [model, adapter]);
  try {
    const { url } = await nextReply<{ url: string }>(child);
    const cpuMs = async () => {
      child.send('cpu');
      return (await nextReply<{ cpuMs: number }>(child)).cpuMs;
    };
    const measureRequest = async (tokens: number) => {
      const cpu = await cpuMs();
      const start = performance.now();
      const answer = await chatStream(url, { ...chat, max_tokens: tokens });
      const wallMs = performance.now() - start;
      if (answer.tokens !== tokens) throw new Error(`${answer.tokens} tokens came instead of ${tokens}`);
      return { cpuMs: (await cpuMs()) - cpu, wallMs, promptTokens: answer.promptTokens };
    };
    // Warm-up, until the host's code is compiled by the JIT.
    for (let warm = 0; warm < 10; warm++) await measureRequest(answerTokens);
    const long = [];
    const short = [];
    for (let round = 0; round < requests; round++) {
      long.push(await measureRequest(answerTokens));
      short.push(await measureRequest(1));
    }
    return {
      answerTokens,
      promptTokens: long[0]?.promptTokens ?? 0,
      requests,
      cpuMsPerToken: roundFigure(median(long.map((each) => each.cpuMs)) / answerTokens),
      wallMsPerToken: roundFigure(median(long.map((each) => each.wallMs)) / answerTokens),
      cpuMsPerRequest: roundFigure(median(short.map((each) => each.cpuMs))),
    };
  } finally {
    child.kill('SIGKILL');
  }
}

async function nextReply<Message>(child: ChildProcess): Promise<Message> {
  const cancel = new AbortController();
  const exited = once(child, 'exit', { signal: cancel.signal }).then(([code]) => {
    throw new Error(`the host of the overhead figure ended with ${code}`);
  });
  exited.catch(() => undefined);
  try {
    const [message] = await Promise.race([once(child, 'message'), exited]);
    return message as Message;
  } finally {
    cancel.abort();
  }
}
