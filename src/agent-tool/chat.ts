import { resolve } from 'node:path';
import { LatheError, type TaskStream } from '../client/index.ts';
import { printable } from '../terminal/printable.ts';
import { interruptedExitCode, sameSignalMs } from '../terminal/stop-signals.ts';
import { taskLines } from './commands.ts';
import { type CommandHandler, type Context, exitCodes } from './context.ts';
import { decide } from './decide.ts';
import { EventText } from './event-text.ts';

const help = '/tasks lists tasks, /new begins a new one, /exit or Ctrl-D ends.\n';

/** Talks with an agent. With a prompt on the command line, or lines of a pipe, it ends with them. */
export const chat: CommandHandler = async (context) => {
  const { lathe, words, flags, environment, input, look, write } = context;
  const interrupts = new Interrupts(context);
  const agent = flags.agent ?? 'default';
  const cwd = resolve(environment.cwd, flags.cwd ?? '.');
  let id = flags.resume;
  let isAnswered = true;
  if (id !== undefined) {
    const task = await lathe.tasks.get(id);
    write(`${look.paint('strong', `${id}, ${task.agent}`)}: ${printable(task.title)}\n`);
    if (task.state === 'running') isAnswered = await follow(lathe.tasks.events(id), context, interrupts);
    else if (task.answer !== undefined) write(`${look.paint('dim', printable(task.answer))}\n`);
  } else if (words.length === 0 && input.isTerminal) {
    write(`${look.paint('strong', agent)} in ${printable(cwd)}. ${help}`);
  }
  let [prompt] = words;
  for (;;) {
    if (prompt === undefined) {
      const answer = await input.ask(input.isTerminal ? look.paint('strong', '> ') : '');
      if (typeof answer !== 'object') break;
      prompt = answer.line.trim();
    }
    const line = prompt;
    prompt = undefined;
    if (line === '' || line.startsWith('/')) {
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
          ? await lathe.tasks.start({ prompt: line, agent, cwd, approvals: 'wait' })
          : await lathe.tasks.send(id, { prompt: line, approvals: 'wait' });
      if (!input.isTerminal && words.length === 0) write(`${look.paint('strong', `> ${printable(line)}`)}\n`);
      if (id === undefined) write(`${look.paint('dim', stream.id)}\n`);
      id = stream.id;
      isAnswered = await follow(stream, context, interrupts);
    } catch (error) {
      // In a dialog, one refused message is not the end.
      if (words.length > 0 || !input.isTerminal || !(error instanceof LatheError)) throw error;
      write(`${look.paint('bad', printable(error.message))}\n`);
    }
    if (words.length > 0) break;
  }
  return isAnswered ? exitCodes.fine : exitCodes.failed;
};

/** Writes the events of a task, and asks about its changes. @returns whether it ended with an answer */
async function follow(stream: TaskStream, context: Context, interrupts: Interrupts): Promise<boolean> {
  const { look, write, environment } = context;
  const text = new EventText(write, look);
  let question: { readonly done: Promise<void>; readonly withdraw: () => void } | undefined;
  let isAnswered = false;
  interrupts.begin(stream.id);
  try {
    for await (const event of stream) {
      if (environment.stdoutClosed.aborted) return false;
      if (event.type === 'tool_result' || event.type === 'aborted') {
        question?.withdraw();
        // Of a stopped task, an approval may never be answered.
        if (event.type === 'tool_result') await question?.done;
        question = undefined;
      }
      // The person has just written it.
      if (event.type !== 'message') text.add(event);
      interrupts.hasCall = event.type === 'tool_call' || (interrupts.hasCall && event.type !== 'tool_result');
      if (event.type === 'waiting') {
        text.end();
        interrupts.hasCall = false;
        // The events go on being read: another person may decide.
        const withdrawn = new AbortController();
        const onApprove = () => {
          interrupts.hasCall = true;
        };
        const decision = decide(event.pending_id, context, { withdrawn: withdrawn.signal, onApprove });
        const done = decision.then(async (made) => {
          if (made === 'stop') await context.lathe.tasks.stop(stream.id);
        });
        done.catch(() => undefined);
        question = { done, withdraw: () => withdrawn.abort() };
      }
      isAnswered = event.type === 'answer';
    }
  } finally {
    interrupts.end();
    text.end();
  }
  return isAnswered;
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
