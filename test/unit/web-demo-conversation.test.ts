import { describe, expect, it } from 'vitest';
import { type ChatBackend, createConversation, type Message } from '../../web/demo/conversation.ts';
import { settingsFromSearch } from '../../web/demo/settings.ts';

const { sampling } = settingsFromSearch('');

/** Answers with the texts, one per chunk, and records its requests. */
function scripted(
  engine: string,
  texts: readonly string[],
  received: (readonly Message[])[] = [],
): ChatBackend {
  return {
    engine,
    model: `model of ${engine}`,
    async *ask(messages) {
      received.push(messages);
      for (const text of texts) yield { text };
      yield { finishReason: 'stop' as const };
    },
  };
}

/** Yields one text, then nothing until it is stopped. */
const endless: ChatBackend = {
  engine: 'lathe',
  model: 'endless',
  async *ask(_messages, _sampling, signal) {
    yield { text: 'Once' };
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
    yield { text: ' more' };
  },
};

const failing: ChatBackend = {
  engine: 'lathe',
  model: 'failing',
  // oxlint-disable-next-line require-yield -- it fails before it yields anything
  async *ask() {
    throw new Error('messages: 2000 tokens do not fit into 1024');
  },
};

describe('a conversation of the demo', () => {
  it('joins the chunks and ends with the finish reason', async () => {
    const { store, ask } = createConversation();
    await ask('Hello', { system: '', sampling, backends: [scripted('lathe', ['Hel', 'lo', '!'])] });
    expect(store.get().isBusy).toBe(false);
    expect(store.get().turns).toMatchObject([
      {
        prompt: 'Hello',
        answers: [{ engine: 'lathe', state: 'done', text: 'Hello!', finishReason: 'stop' }],
      },
    ]);
  });

  it('sends every engine the same messages: the system prompt and the answers of the first engine', async () => {
    const { ask } = createConversation();
    const first: (readonly Message[])[] = [];
    const second: (readonly Message[])[] = [];
    const backends = [scripted('lathe', ['A'], first), scripted('web-llm', ['B'], second)];
    await ask('one', { system: 'Be short.', sampling, backends });
    await ask('two', { system: 'Be short.', sampling, backends });
    expect(first[1]).toEqual([
      { role: 'system', content: 'Be short.' },
      { role: 'user', content: 'one' },
      { role: 'assistant', content: 'A' },
      { role: 'user', content: 'two' },
    ]);
    expect(second).toEqual(first);
  });

  it('runs the engines one after another', async () => {
    const { store, ask } = createConversation();
    const states: string[] = [];
    store.subscribe(() => {
      const answers = store.get().turns[0]?.answers ?? [];
      states.push(answers.map(({ state }) => state).join(' '));
    });
    await ask('x', {
      system: '',
      sampling,
      backends: [scripted('lathe', ['A']), scripted('web-llm', ['B'])],
    });
    expect(states).not.toContain('writing writing');
    expect(states.at(-1)).toBe('done done');
  });

  it('keeps the partial answer when stopped, and does not start the next engine', async () => {
    const { store, ask, stop } = createConversation();
    const received: (readonly Message[])[] = [];
    const answering = ask('x', {
      system: '',
      sampling,
      backends: [endless, scripted('web-llm', ['B'], received)],
    });
    await new Promise((resolve) => setTimeout(resolve));
    stop();
    await answering;
    expect(received).toEqual([]);
    expect(store.get()).toMatchObject({
      isBusy: false,
      turns: [
        {
          answers: [
            { state: 'stopped', text: 'Once more' },
            { state: 'stopped', text: '' },
          ],
        },
      ],
    });
  });

  it('shows an error, and removes the refused prompt from the conversation', async () => {
    const { store, ask } = createConversation();
    await ask('too long', { system: '', sampling, backends: [failing] });
    expect(store.get().turns[0]?.answers[0]).toMatchObject({
      state: 'failed',
      fault: 'messages: 2000 tokens do not fit into 1024',
    });
    const received: (readonly Message[])[] = [];
    await ask('short', { system: '', sampling, backends: [scripted('lathe', ['A'], received)] });
    expect(received).toEqual([[{ role: 'user', content: 'short' }]]);
  });

  it('is empty after it was cleared, even during an answer', async () => {
    const { store, ask, clear } = createConversation();
    const answering = ask('x', { system: '', sampling, backends: [endless] });
    await new Promise((resolve) => setTimeout(resolve));
    clear();
    expect(store.get()).toEqual({ turns: [], isBusy: true });
    await answering;
    expect(store.get()).toEqual({ turns: [], isBusy: false });
  });
});
