import type { Tool, ToolSource } from '../../tool.ts';
import type { ResolveHost } from '../../../addresses/resolve.ts';
import type { FetchLimits } from '../network/fetch-text.ts';
import { Confinement } from '../paths/confinement.ts';
import { type Bubblewrap, type SandboxLimits, defaultLimits } from '../sandbox/bubblewrap.ts';
import type { StartedProcesses } from '../../started-processes.ts';
import { SavedOutputs } from '../sandbox/saved-outputs.ts';
import type { AgentStore } from '../../services.ts';
import { type DelegatedTasks, delegateTool } from './delegate.ts';
import { FileChangeSet } from './file-change-set.ts';
import { fsDelete } from './fs-delete.ts';
import { fsEdit } from './fs-edit.ts';
import { fsList } from './fs-list.ts';
import { fsMkdir } from './fs-mkdir.ts';
import { fsRead } from './fs-read.ts';
import { fsRename } from './fs-rename.ts';
import { fsSearch } from './fs-search.ts';
import { fsWrite } from './fs-write.ts';
import { httpGet } from './http-get.ts';
import { labBindTools } from './lab-bind.ts';
import { labMeasureTools } from './lab-measure.ts';
import { labReadTools } from './lab-read.ts';
import type { GetLab } from './lab-reader.ts';
import { type ObserveReader, observeTools } from './observe.ts';
import { runCommand } from './run-command.ts';
import { FileChanges } from './staged-file.ts';

export interface BuiltinOptions {
  /** Absolute paths that no agent may access, whatever its grants: the host's data and credentials. */
  readonly forbidden: readonly string[];
  /** Result of `Bubblewrap.probe`: the sandbox, or the reason why there is none. */
  readonly sandbox: Bubblewrap | string;
  readonly lab: GetLab;
  readonly observe: ObserveReader;
  /** Undefined: no agent can hand work on. */
  readonly delegation?: { readonly tasks: () => DelegatedTasks; readonly agents: Pick<AgentStore, 'get'> };
  readonly resolve?: ResolveHost;
  readonly fetchLimits?: Partial<FetchLimits>;
  readonly sandboxLimits?: Partial<SandboxLimits>;
  /** Where long outputs of commands are saved; by default they are not. */
  readonly outputs?: SavedOutputs;
  /** Where running commands are recorded; by default they are not. */
  readonly processes?: StartedProcesses;
}

/** The built-in tools, in the order of the catalog. */
export function builtinTools(options: BuiltinOptions): ToolSource {
  const { forbidden, sandbox, lab, observe, resolve, fetchLimits, sandboxLimits, processes } = options;
  const { outputs = new SavedOutputs(undefined), delegation } = options;
  const confinement = new Confinement(forbidden);
  const changes = new FileChanges(confinement);
  const set = new FileChangeSet(confinement, changes);
  const all: readonly Tool[] = [
    fsList(confinement),
    fsRead(confinement, outputs),
    fsSearch(confinement),
    { ...fsWrite(confinement, changes), set },
    { ...fsEdit(confinement, changes), set },
    { ...fsDelete(confinement, changes), set },
    { ...fsRename(confinement, changes), set },
    { ...fsMkdir(confinement, changes), set },
    httpGet(resolve, fetchLimits),
    runCommand({ confinement, sandbox, limits: { ...defaultLimits, ...sandboxLimits }, outputs, processes }),
    ...labReadTools(lab),
    ...labMeasureTools(lab),
    ...labBindTools(lab),
    ...observeTools(observe),
    ...(delegation ? [delegateTool(delegation.tasks, delegation.agents)] : []),
  ];
  return { tools: () => all };
}
