import type { TaskStream } from '../client/index.ts';
import { printable } from '../terminal/printable.ts';
import { errorMessage } from '../util/error-message.ts';
import { sleep } from '../util/sleep.ts';
import type { Context } from './context.ts';
import { decide, type Decision, type DecisionOptions, stopTask } from './decide.ts';
import { EventText } from './event-text.ts';
import { Interrupts } from './interrupts.ts';

/** Before a question is asked again that failed. */
const askAgainMs = 1000;

/** `empty`: the model answered nothing; `left`: the task waits for a person, who has gone. */
export type TaskEnd = 'answered' | 'empty' | 'aborted' | 'left';

interface Question {
  readonly id: string;
  readonly done: Promise<Decision>;
  readonly withdraw: () => void;
}

/** Writes the events of a chat's tasks, and asks about their changes. */
export class Follower {
  readonly #context: Context;
  readonly #interrupts: Interrupts;
  readonly #leave = new AbortController();
  readonly #allowed = new Set<string>();
  /** Outputs that were shown cut, for `/output`. */
  readonly outputs: string[] = [];
  /** The last change that was decided elsewhere while it was asked about: a late answer to it is no message. */
  decidedElsewhere: string | undefined;

  constructor(context: Context) {
    this.#context = context;
    this.#interrupts = new Interrupts(context);
  }

  /** Aborted when the person has gone. */
  get signal(): AbortSignal {
    return this.#leave.signal;
  }

  /**
   * @param cwd working folder of the task
   * @param more how to see an output whole; default: `/output`
   */
  async follow(stream: TaskStream, cwd: string, more = this.#keepOutput): Promise<TaskEnd> {
    const { look, write, environment } = this.#context;
    const text = new EventText(write, look, more);
    const interrupts = this.#interrupts;
    let question: Question | undefined;
    let hasCalled = false;
    let end: TaskEnd = 'aborted';
    const ask = (id: string) => {
      text.end();
      interrupts.hasCall = false;
      // The events go on being read: another person may decide.
      question = this.#ask(id, stream.id, cwd);
    };
    interrupts.begin(stream.id);
    this.decidedElsewhere = undefined;
    try {
      for await (const event of stream) {
        if (environment.stdoutClosed.aborted) return 'left';
        if (event.type === 'tool_result' || event.type === 'aborted') {
          question?.withdraw();
          // The approval request of a stopped task may get no response.
          const isWithdrawn = event.type === 'tool_result' && (await question?.done) === 'withdrawn';
          if (question && isWithdrawn) {
            this.decidedElsewhere = question.id;
            write(`${question.id} was decided elsewhere.\n`);
          }
          question = undefined;
        }
        // The person has just written it.
        if (event.type !== 'message') text.add(event);
        const isCall = event.type === 'tool_call';
        hasCalled ||= isCall;
        interrupts.hasCall = isCall || (interrupts.hasCall && event.type !== 'tool_result');
        if (event.type === 'waiting' && question?.id !== event.pending_id) ask(event.pending_id);
        // The question is still open, and the lines above are between it and the person.
        if (event.type === 'resumed' && question) {
          question.withdraw();
          ask(question.id);
        }
        if (event.type === 'answer') end = event.text === '' && !hasCalled ? 'empty' : 'answered';
      }
    } catch (error) {
      if (!(error instanceof Left)) throw error;
      write(`${stream.id} goes on waiting: ${environment.program} --resume ${stream.id}\n`);
      return 'left';
    } finally {
      interrupts.end();
      text.end();
    }
    return end;
  }

  readonly #keepOutput = (output: string): string => `/output ${this.outputs.push(output)}`;

  #ask(id: string, task: string, cwd: string): Question {
    const withdrawn = new AbortController();
    const onApprove = () => {
      this.#interrupts.hasCall = true;
    };
    const options = { withdrawn: withdrawn.signal, onApprove, cwd, allowed: this.#allowed };
    const done = this.#decideUntilDone(id, options).then(async (made) => {
      if (made === 'leave') this.#leave.abort(new Left());
      if (made === 'stop') await stopTask(task, this.#context).catch(() => undefined);
      return made;
    });
    return { id, done, withdraw: () => withdrawn.abort() };
  }

  /** Asks again when the host was away, or something else went wrong. */
  async #decideUntilDone(id: string, options: DecisionOptions): Promise<Decision> {
    const { write, look } = this.#context;
    for (;;) {
      try {
        return await decide(id, this.#context, options);
      } catch (error) {
        if (options.withdrawn.aborted) return 'decided';
        write(`${look.paint('bad', printable(errorMessage(error)))}\n`);
        await sleep(askAgainMs);
      }
    }
  }
}

/** The input ended while a change waits. */
class Left extends Error {}
