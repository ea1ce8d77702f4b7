import { describe, expect, it } from 'vitest';
import { History } from '../../web/chat/history.ts';
import { pathOf } from '../../web/chat/tree.ts';
import {
  type AskOptions,
  type ChatBackend,
  createConversations,
  type Message,
  type Turn,
} from '../../web/demo/conversation.ts';
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

/** A conversation without a history. */
function newConversation() {
  const history = new History<Turn>({ name: 'test', optOutKey: 'test', storable: (turn) => turn });
  const chats = createConversations(history);
  let { id } = chats.get().fresh;
  const conversation = () => chats.get().conversations.find((one) => one.id === id);
  const path = () => {
    const shown = conversation();
    return shown ? pathOf(shown) : [];
  };
  return {
    chats,
    subscribe: (listener: () => void) => chats.subscribe(listener),
    ask: (text: string, options: AskOptions) => chats.send(id, { role: 'user', text }, options),
    stop: () => chats.stop(id),
    path,
    /** The answers of all engines to the last message. */
    answers: () => path().flatMap((turn) => (turn.role === 'assistant' ? turn.answers : [])),
    edit: (turn: Turn, text: string, options: AskOptions) =>
      chats.edit(id, turn, { role: 'user', text }, options),
    regenerate: (turn: Turn, options: AskOptions) => chats.regenerate(id, turn, options),
    startNew: () => {
      ({ id } = chats.get().fresh);
    },
  };
}

describe('a conversation of the demo', () => {
  it('joins the chunks and ends with the finish reason', async () => {
    const { path, answers, ask } = newConversation();
    await ask('Hello', { system: '', sampling, backends: [scripted('lathe', ['Hel', 'lo', '!'])] });
    expect(path()).toMatchObject([
      { role: 'user', text: 'Hello' },
      { role: 'assistant', state: 'done', text: 'Hello!' },
    ]);
    expect(answers()).toMatchObject([
      { engine: 'lathe', state: 'done', text: 'Hello!', finishReason: 'stop' },
    ]);
  });

  it('sends every engine the same messages: the system prompt and the answers of the first engine', async () => {
    const { ask } = newConversation();
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
    const { subscribe, answers, ask } = newConversation();
    const states: string[] = [];
    subscribe(() => {
      states.push(
        answers()
          .map(({ state }) => state)
          .join(' '),
      );
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
    const { path, answers, ask, stop } = newConversation();
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
    expect(path()[1]).toMatchObject({ state: 'stopped', text: 'Once more' });
    expect(answers()).toMatchObject([
      { state: 'stopped', text: 'Once more' },
      { state: 'stopped', text: '' },
    ]);
  });

  it('shows an error, and removes the refused prompt from the conversation', async () => {
    const { answers, ask } = newConversation();
    await ask('too long', { system: '', sampling, backends: [failing] });
    expect(answers()[0]).toMatchObject({
      state: 'failed',
      fault: 'messages: 2000 tokens do not fit into 1024',
    });
    const received: (readonly Message[])[] = [];
    await ask('short', { system: '', sampling, backends: [scripted('lathe', ['A'], received)] });
    expect(received).toEqual([[{ role: 'user', content: 'short' }]]);
  });

  it('is empty after all chats were cleared, even during an answer', async () => {
    const { chats, path, ask } = newConversation();
    const answering = ask('x', { system: '', sampling, backends: [endless] });
    await new Promise((resolve) => setTimeout(resolve));
    await chats.clear();
    await answering;
    expect(path()).toEqual([]);
    expect(chats.get().conversations).toEqual([]);
  });

  it('keeps the earlier version of an edited message and of a regenerated answer', async () => {
    const { path, ask, edit, regenerate, chats } = newConversation();
    const received: (readonly Message[])[] = [];
    const options = (text: string) => ({
      system: '',
      sampling,
      backends: [scripted('lathe', [text], received)],
    });
    await ask('one', options('A'));
    await ask('two', options('B'));
    await regenerate(path()[3]!, options('C'));
    expect(path().map(({ text }) => text)).toEqual(['one', 'A', 'two', 'C']);
    await edit(path()[0]!, 'three', options('D'));
    expect(path().map(({ text }) => text)).toEqual(['three', 'D']);
    expect(received.at(-1)).toEqual([{ role: 'user', content: 'three' }]);
    const [conversation] = chats.get().conversations;
    chats.choose(conversation!.id, conversation!.turns[0]!);
    expect(path().map(({ text }) => text)).toEqual(['one', 'A', 'two', 'C']);
  });

  it('starts a new chat beside the earlier one', async () => {
    const { path, ask, startNew, chats } = newConversation();
    const backends = [scripted('lathe', ['A'])];
    await ask('one', { system: '', sampling, backends });
    startNew();
    await ask('two', { system: '', sampling, backends });
    expect(path().map(({ text }) => text)).toEqual(['two', 'A']);
    expect(chats.get().conversations.map(({ title }) => title)).toEqual(['two', 'one']);
  });
});
