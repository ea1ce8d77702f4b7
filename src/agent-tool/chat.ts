import { resolve } from 'node:path';
import { UsageError } from '../config/options.ts';
import { sleep } from '../util/sleep.ts';
import { errorMessage } from '../util/error-message.ts';
import { LatheError, type TaskStream } from '../client/index.ts';
import { printable } from '../terminal/printable.ts';
import { interruptedExitCode, sameSignalMs } from '../terminal/stop-signals.ts';
import { taskLines } from './commands.ts';
import { type CommandHandler, type Context, exitCodes } from './context.ts';
import { decide } from './decide.ts';
import { EventText, printableLines } from './event-text.ts';

/** Before a question is asked again that failed. */
const askAgainMs = 1000;

const help = '/tasks lists tasks, /new begins a new one, /exit or Ctrl-D ends.\n';

/** Talks with an agent. With a prompt on the command line, or lines of a pipe, it ends with them. */
export const chat: CommandHandler = async (context) => {
  const { lathe, words, flags, environment, input, look, write } = context;
  const interrupts = new Interrupts(context);
  const agent = flags.agent ?? 'default';
  const cwd = resolve(environment.cwd, flags.cwd ?? '.');
  const leave = new AbortController();
  const { signal } = leave;
  let id = flags.resume;
  let isAnswered = true;
  if (id !== undefined) {
    const task = await lathe.tasks.get(id);
    write(`${look.paint('strong', `${id}, ${task.agent}`)}: ${printable(task.title)}\n`);
    if (task.state === 'running') {
      const events = lathe.tasks.events(id, { after: task.part_seq - 1, signal });
      const end = await follow(events, context, interrupts, leave);
      if (end === 'left') return exitCodes.failed;
      isAnswered = end === 'answered';
    }
    if (task.state !== 'running' && task.answer !== undefined)
      write(`${look.paint('dim', printableLines(task.answer))}\n`);
  } else if (words.length === 0 && input.isTerminal) {
    write(`${look.paint('strong', agent)} in ${printable(cwd)}. ${help}`);
  }
  let [prompt] = words;
  if (prompt?.trim() === '') throw new UsageError(['the prompt is empty']);
  for (;;) {
    if (prompt === undefined) {
      const answer = await input.ask(input.isTerminal ? look.paint('strong', '> ') : '');
      if (typeof answer !== 'object') break;
      prompt = answer.line.trim();
    }
    const line = prompt;
    prompt = undefined;
    const isCommand = words.length === 0 && line.startsWith('/');
    if (line === '' || isCommand) {
      if (line === '/exit' || line === '/quit') break;
      if (line === '/new') id = undefined;
      else if (line === '/tasks')
        write(`${taskLines(await lathe.tasks.list({ limit: 20 }), look).join('\n')}\n`);
      else if (line !== '') write(help);
      continue;
    }
    try {
      const stream: TaskStream =
        id === undefined
          ? await lathe.tasks.start({ prompt: line, agent, cwd, approvals: 'wait' }, { signal })
          : await lathe.tasks.send(id, { prompt: line, approvals: 'wait' }, { signal });
      if (!input.isTerminal && words.length === 0) write(`${look.paint('strong', `> ${printable(line)}`)}\n`);
      if (id === undefined) write(`${look.paint('dim', stream.id)}\n`);
      id = stream.id;
      const end = await follow(stream, context, interrupts, leave);
      if (end === 'left') return exitCodes.failed;
      isAnswered = end === 'answered';
    } catch (error) {
      // In a dialog, one refused message is not the end.
      if (words.length > 0 || !input.isTerminal || !(error instanceof LatheError)) throw error;
      write(`${look.paint('bad', printable(error.message))}\n`);
    }
    if (words.length > 0) break;
  }
  return isAnswered ? exitCodes.fine : exitCodes.failed;
};

/** Writes the events of a task, and asks about its changes. `left`: it waits for a person, and the input has ended. */
async function follow(
  stream: TaskStream,
  context: Context,
  interrupts: Interrupts,
  leave: AbortController,
): Promise<'answered' | 'aborted' | 'left'> {
  const { look, write, environment } = context;
  const text = new EventText(write, look);
  let question:
    | { readonly id: string; readonly done: Promise<void>; readonly withdraw: () => void }
    | undefined;
  let isAnswered = false;
  interrupts.begin(stream.id);
  try {
    for await (const event of stream) {
      if (environment.stdoutClosed.aborted) return 'left';
      if (event.type === 'tool_result' || event.type === 'aborted') {
        question?.withdraw();
        // The approval request of a stopped task may get no response.
        if (event.type === 'tool_result') await question?.done;
        question = undefined;
      }
      // The person has just written it.
      if (event.type !== 'message') text.add(event);
      interrupts.hasCall = event.type === 'tool_call' || (interrupts.hasCall && event.type !== 'tool_result');
      // After a restart of the host, the question is still open.
      if (event.type === 'waiting' && question?.id !== event.pending_id) {
        text.end();
        interrupts.hasCall = false;
        // The events go on being read: another person may decide.
        const withdrawn = new AbortController();
        const onApprove = () => {
          interrupts.hasCall = true;
        };
        const asking = { withdrawn: withdrawn.signal, onApprove };
        const done = decideUntilDone(event.pending_id, context, asking).then(async (made) => {
          if (made === 'leave') leave.abort(new Left());
          if (made === 'stop') await context.lathe.tasks.stop(stream.id).catch(() => undefined);
        });
        question = { id: event.pending_id, done, withdraw: () => withdrawn.abort() };
      }
      isAnswered = event.type === 'answer';
    }
  } catch (error) {
    if (!(error instanceof Left)) throw error;
    write(`${stream.id} goes on waiting: node dist/agent.js --resume ${stream.id}\n`);
    return 'left';
  } finally {
    interrupts.end();
    text.end();
  }
  return isAnswered ? 'answered' : 'aborted';
}

/** The input ended while a change waits. */
class Left extends Error {}

/** Asks again when the host was away, or something else went wrong. */
async function decideUntilDone(
  id: string,
  context: Context,
  asking: Parameters<typeof decide>[2],
): ReturnType<typeof decide> {
  for (;;) {
    try {
      return await decide(id, context, asking);
    } catch (error) {
      if (asking.withdrawn.aborted) return 'decided';
      context.write(`${context.look.paint('bad', printable(errorMessage(error)))}\n`);
      await sleep(askAgainMs);
    }
  }
}

/** Ctrl-C while a task runs: stops its call, then the task, then this program. */
class Interrupts {
  readonly #context: Context;
  #task: string | undefined;
  #count = 0;
  #last = Number.NEGATIVE_INFINITY;
  /** Whether a tool call runs. */
  hasCall = false;

  constructor(context: Context) {
    this.#context = context;
    const { signals, exit } = context.environment;
    signals.on('SIGINT', () => {
      const now = performance.now();
      if (now - this.#last < sameSignalMs) return;
      this.#last = now;
      if (this.#task === undefined || this.#count > 1) exit(interruptedExitCode);
      else void this.#stop(this.#task);
    });
    for (const signal of ['SIGTERM', 'SIGHUP'] as const) signals.on(signal, () => exit(interruptedExitCode));
  }

  begin(task: string): void {
    this.#task = task;
    this.#count = 0;
    this.hasCall = false;
  }

  end(): void {
    this.#task = undefined;
  }

  async #stop(task: string): Promise<void> {
    const { lathe, write } = this.#context;
    this.#count = this.hasCall ? this.#count + 1 : 2;
    const isCallOnly = this.#count === 1;
    write(isCallOnly ? '\nStopping the call; Ctrl-C again stops the task.\n' : '\nStopping the task.\n');
    try {
      await (isCallOnly ? lathe.tasks.stopCall(task) : lathe.tasks.stop(task));
    } catch (error) {
      // It had ended meanwhile.
      if (!(error instanceof LatheError && error.status === 409)) write(`${String(error)}\n`);
    }
  }
}
