import { resolve } from 'node:path';
import { UsageError } from '../config/options.ts';
import { LatheError, type TaskStream } from '../client/index.ts';
import { printableLine, printableLines } from '../terminal/lines.ts';
import { printable } from '../terminal/printable.ts';
import { taskLines } from './commands.ts';
import { type CommandHandler, type Context, exitCodes } from './context.ts';
import { isExit } from './decide.ts';
import { Follower, type TaskEnd } from './follow.ts';

/** After this time, a person is told that a pipe is still open. */
const openPipeMs = 2000;

const help = `Type a message. A line that ends in \\ goes on in the next line, and pasted lines are one message.
The Up key brings back what you wrote.
  /tasks       list tasks
  /new         begin a new task
  /output [N]  show a whole output; without a number, the last one that was cut
  /exit        end the chat; Ctrl-D and /quit do it, too
Ctrl-C stops the running call, and a second time the task. At a question it leaves the question: the change stays
pending. A second time it stops the task.
`;

/** Talks with an agent. With a prompt on the command line, or the text of a pipe, it ends with the answer. */
export const chat: CommandHandler = async (context) => {
  const { lathe, words, flags, input, look, write, environment } = context;
  const agent = flags.agent ?? 'default';
  const cwd = resolve(context.cwd, flags.cwd ?? '.');
  const isDialog = words.length === 0 && input.isDialog;
  let prompt = isDialog ? undefined : await readPrompt(context);
  let id = flags.resume;
  const follower = new Follower(context);
  const { signal } = follower;
  let folder = cwd;
  const follow = async (stream: TaskStream) =>
    await follower.follow(
      stream,
      folder,
      isDialog ? undefined : () => `${environment.program} show ${stream.id}`,
    );
  let end: TaskEnd = 'answered';
  if (id !== undefined) {
    const task = await lathe.tasks.get(id);
    write(`${look.paint('strong', `${id}, ${task.agent}`)}: ${printableLine(task.title)}\n`);
    folder = task.cwd ?? cwd;
    if (task.state === 'running')
      end = await follow(lathe.tasks.events(id, { after: task.part_seq - 1, signal }));
    else if (task.answer !== undefined) write(`${look.paint('dim', printableLines(task.answer))}\n`);
  } else if (isDialog && input.isTerminal) {
    write(
      `${look.paint('strong', agent)} in ${printable(cwd)}. /help lists what you can type; Ctrl-D ends.\n`,
    );
  }
  while (end !== 'left' && (isDialog || prompt !== undefined)) {
    prompt ??= await readMessage(context, follower, () => {
      id = undefined;
      folder = cwd;
    });
    if (prompt === undefined) break;
    try {
      const request = { prompt, approvals: 'wait' as const };
      const stream =
        id === undefined
          ? await lathe.tasks.start({ ...request, agent, cwd }, { signal })
          : await lathe.tasks.send(id, request, { signal });
      if (isDialog && !input.isTerminal) write(`${look.paint('strong', `> ${printable(prompt)}`)}\n`);
      if (id === undefined) write(`${look.paint('dim', stream.id)}\n`);
      id = stream.id;
      end = await follow(stream);
    } catch (error) {
      // In a dialog, one refused message is not the end.
      if (!isDialog || !input.isTerminal || !(error instanceof LatheError)) throw error;
      write(`${look.paint('bad', printable(error.message))}\n`);
    }
    prompt = undefined;
  }
  if (prompt !== undefined) write('The message was not sent.\n');
  // At the terminal a person has read how each message ended.
  return end === 'answered' || (isDialog && input.isTerminal) ? exitCodes.fine : exitCodes.failed;
};

/** The prompt of the command line, with the text of a pipe after it. @returns undefined when a task is only followed */
async function readPrompt({ words, flags, input, environment }: Context): Promise<string | undefined> {
  const [word] = words;
  if (word?.trim() === '') throw new UsageError(['the prompt is empty']);
  const note = setTimeout(
    () => environment.stderr.write('Reading the standard input to its end; < /dev/null if there is none.\n'),
    openPipeMs,
  );
  const piped = input.isDialog ? '' : (await input.readAll()).trimEnd();
  clearTimeout(note);
  const parts = [word ?? '', piped].filter((part) => part !== '');
  if (parts.length === 0 && flags.resume === undefined)
    throw new UsageError(['there is no prompt: write it after chat, or pipe it']);
  return parts.length === 0 ? undefined : parts.join('\n\n');
}

/** A message of a dialog; what begins with a slash is done here. @returns undefined when the person ends the chat */
async function readMessage(
  { lathe, input, look, write }: Context,
  follower: Follower,
  onNew: () => void,
): Promise<string | undefined> {
  let wasInterrupted = false;
  for (;;) {
    const answer = await input.ask(input.isTerminal ? look.paint('strong', '> ') : '', 'message');
    if (answer === 'interrupted' && !wasInterrupted) {
      write('\nCtrl-C again ends the chat.\n');
      wasInterrupted = true;
      continue;
    }
    if (typeof answer !== 'object') return undefined;
    wasInterrupted = false;
    const line = answer.line.trim();
    const decided = follower.decidedElsewhere;
    if (input.isTerminal && (decided !== undefined || answer.isEarly) && isDecision(line)) {
      follower.decidedElsewhere = undefined;
      write(
        `'${line}' was not sent: it looks like an answer to a question that is over. Type it again to send it.\n`,
      );
      continue;
    }
    if (isExit(line)) return undefined;
    if (line.startsWith('/') && !line.includes('\n')) {
      const [command, argument] = line.split(/\s+/);
      if (command === '/new') onNew();
      else if (command === '/tasks')
        write(`${taskLines(await lathe.tasks.list({ limit: 20 }), look).join('\n')}\n`);
      else if (command === '/output') write(outputText(follower.outputs, argument));
      else if (command === '/help') write(help);
      else write(`There is no command ${printable(line)}; /help lists them.\n`);
    } else if (line !== '') return line;
  }
}

/** Whether a line is an answer to a question about a change. */
const isDecision = (line: string): boolean => /^(y(es)?|n(o)?|e(dit)?|a(lways)?)$/i.test(line);

function outputText(outputs: readonly string[], argument = String(outputs.length)): string {
  const output = outputs[Number(argument) - 1];
  if (output !== undefined) return `${printableLines(output.trimEnd())}\n`;
  return outputs.length === 0
    ? 'No output was cut.\n'
    : `The outputs that were cut are 1 to ${outputs.length}.\n`;
}
