import { hostFlags } from '../host-client/address.ts';
import {
  type CommandRow,
  type FlagRow,
  type FlagsOf,
  type InvocationOf,
  parseArguments,
} from '../terminal/arguments.ts';
import { toolHelp } from '../terminal/help.ts';

const flags = {
  ...hostFlags,
  agent: { kind: 'text', value: 'NAME', help: 'agent that works on it (default: default)' },
  cwd: { kind: 'text', value: 'FOLDER', help: 'working folder (default: the current one)' },
  resume: { kind: 'text', value: 'ID', help: 'go on with this task' },
  state: {
    kind: 'text',
    value: 'STATE',
    help: 'only tasks that are running, waiting (for you), completed, failed or cancelled',
  },
  lines: {
    kind: 'flag',
    help: 'each line of the standard input is a message, or the answer to a question',
  },
  note: { kind: 'text', value: 'TEXT', help: 'why; the agent of a waiting task is told' },
  tools: {
    kind: 'list',
    value: 'GLOB,GLOB',
    help: 'tools that the agent may call, such as fs_* (repeatable)',
  },
  read: { kind: 'list', value: 'FOLDER', help: 'folder that the agent may read (repeatable)' },
  write: { kind: 'list', value: 'FOLDER', help: 'folder that the agent may read and write (repeatable)' },
  'auto-approve': {
    kind: 'list',
    value: 'GLOB,GLOB',
    help: 'tools whose changes are made without asking (repeatable)',
  },
  model: {
    kind: 'text',
    value: 'MODEL',
    help: 'model of the agent: resident (default), or one of the gateway',
  },
  instructions: { kind: 'text', value: 'TEXT', help: 'what the agent is told first' },
  json: { kind: 'flag', help: 'print JSON' },
} as const satisfies Record<string, FlagRow>;

const commands = {
  chat: {
    placeholders: '[PROMPT]',
    minWords: 0,
    maxWords: 1,
    flags: ['agent', 'cwd', 'resume', 'lines'],
    help: 'talk with an agent; its changes are shown, and made when you agree',
  },
  list: {
    placeholders: '',
    minWords: 0,
    maxWords: 0,
    flags: ['state', 'json'],
    help: 'list tasks, newest first',
  },
  show: {
    placeholders: 'ID',
    minWords: 1,
    maxWords: 1,
    flags: ['json'],
    help: 'show what a task said and did, with the whole output of its calls',
  },
  stop: { placeholders: 'ID', minWords: 1, maxWords: 1, flags: [], help: 'stop a running task' },
  pending: {
    placeholders: '',
    minWords: 0,
    maxWords: 0,
    flags: ['json'],
    help: 'list changes that wait for you',
  },
  approve: {
    placeholders: 'ID...',
    minWords: 1,
    maxWords: 100,
    flags: [],
    help: 'make a change; several changes of files are made together, or none',
  },
  discard: {
    placeholders: 'ID...',
    minWords: 1,
    maxWords: 100,
    flags: ['note'],
    help: 'decline changes',
  },
  agents: {
    placeholders: '',
    minWords: 0,
    maxWords: 0,
    flags: ['json'],
    help: 'list agents and what they may do',
  },
  create: {
    placeholders: 'NAME',
    minWords: 1,
    maxWords: 1,
    flags: ['tools', 'read', 'write', 'auto-approve', 'model', 'instructions'],
    help: 'create an agent, or replace the one of this name',
  },
} as const satisfies Record<string, CommandRow>;

const agentTable = {
  flags,
  commands,
  shared: ['url', 'token', 'token-file'],
  defaultCommand: 'chat',
} as const;

export type AgentFlags = FlagsOf<typeof agentTable>;
export type AgentCommand = keyof typeof commands;

/** Parses the command line. Throws `UsageError` with all faults. */
export const parseAgentArguments = (args: readonly string[]): InvocationOf<typeof agentTable> =>
  parseArguments(agentTable, args);

export const agentHelpText = (version: string, program: string): string =>
  toolHelp(agentTable, {
    header: [
      `lathe ${version}: agents in the terminal`,
      '',
      `Usage: ${program} [COMMAND] [options]`,
      '  Without a command it is chat. Needs a running host with a model: of its own',
      '  (--gpu), or of the server in [gateway] of its configuration. docs/agents.md',
      '',
      'In a chat, /help lists what you can type. With PROMPT, or text on the standard',
      'input, chat ends with the answer; with both, the text follows the prompt.',
    ],
    exitCodes: [
      ['0', 'success'],
      ['1', 'the task ended without an answer, or waits for you'],
      ['2', 'invalid usage, or an unreadable file'],
      ['3', 'the host is unreachable or rejected the request'],
    ],
  });
