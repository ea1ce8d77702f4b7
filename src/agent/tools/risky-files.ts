/** Files that other programs run or trust without asking: who writes them runs code later, outside of any sandbox. */

interface RiskyKind {
  /** Matches `/` and the path, in lower case. */
  readonly path: RegExp;
  readonly reason: string;
  /** The part of the text that runs; the whole text by default. Empty: nothing in it runs. */
  readonly running?: (text: string) => string;
}

const kinds: readonly RiskyKind[] = [
  { path: /\/\.git\/hooks\/(?!.*\.sample$)/, reason: 'git runs it' },
  { path: /\/\.(?:husky|githooks)\//, reason: 'git runs it' },
  { path: /\/\.git$/, reason: 'git runs the hooks of the folder that it names' },
  {
    path: /\/(?:\.git\/(?:config|config\.worktree)|\.gitconfig|\.config\/git\/config)$/,
    reason: 'git runs programs that it names',
    running: gitPrograms,
  },
  {
    path: /\/\.(?:bash_profile|bash_login|bash_logout|bashrc|profile|zshrc|zshenv|zprofile|zlogin|zlogout|kshrc|cshrc|tcshrc|login|xprofile|xinitrc|inputrc)$|\/\.config\/fish\//,
    reason: 'a shell runs it when it starts',
  },
  {
    path: /\/etc\/(?:profile|bash\.bashrc|zsh\/|profile\.d\/|cron|sudoers|ld\.so\.)/,
    reason: 'the system runs it',
  },
  {
    path: /\/\.config\/(?:systemd\/|autostart\/)|\/launchagents\/|\/crontabs?\//,
    reason: 'the system runs it',
  },
  {
    path: /\/\.ssh\/(?:authorized_keys2?|config|rc|environment)$/,
    reason: 'it decides who may log in, and what runs then',
  },
  { path: /\/\.envrc$/, reason: 'direnv runs it' },
  {
    path: /\/\.vscode\/(?:tasks|launch|settings|mcp)\.json$|\.code-workspace$|\/\.idea\/|\/\.devcontainer[/.]|\/\.fleet\//,
    reason: 'an editor runs what it names',
  },
  {
    path: /\/\.(?:vimrc|exrc|nvimrc|nvim\.lua|emacs|dir-locals\.el)$|\/\.(?:vim|emacs\.d)\/|\/\.config\/nvim\//,
    reason: 'an editor runs it',
  },
  {
    path: /\/\.github\/(?:workflows|actions)\/|\/\.(?:circleci|buildkite|woodpecker)\/|\/\.(?:gitlab-ci|travis|drone|appveyor)\.ya?ml$|\/(?:azure-pipelines|bitbucket-pipelines)\.ya?ml$|\/jenkinsfile$/,
    reason: 'CI runs it',
  },
  { path: /\/package\.json$/, reason: 'npm runs its scripts', running: packageScripts },
  {
    path: /\/(?:\.npmrc|\.yarnrc(?:\.yml)?|\.pnpmfile\.cjs|\.pre-commit-config\.yaml|lefthook\.ya?ml|\.lintstagedrc\S*)$/,
    reason: 'package managers and git hooks run what it names',
  },
  {
    path: /\/(?:makefile|gnumakefile|justfile|rakefile|taskfile\.ya?ml|setup\.py|conftest\.py|build\.rs|build\.gradle(?:\.kts)?|sitecustomize\.py)$/,
    reason: 'build and test tools run it',
  },
  { path: /\/(?:\.mcp\.json|\.claude\/|\.cursor\/|\.aider\S*)/, reason: 'other agents run or follow it' },
];

/**
 * Why writing a file is risky; undefined when it is not.
 * @param before its text, if it exists; a part that runs and stays as it is adds no risk
 */
export function riskOf(path: string, before: string | undefined, after: string): string | undefined {
  const kind = kindOf(path);
  if (!kind) return undefined;
  const { running = (text: string) => text } = kind;
  const runs = running(after);
  return runs === '' || runs === (before === undefined ? '' : running(before)) ? undefined : kind.reason;
}

/** Whether a path names such a file. */
export const isRiskyPath = (path: string): boolean => kindOf(path) !== undefined;

/** Whether a link at a path may stand in for such files, or for a folder with them. */
export const isRiskyLink = (path: string): boolean => riskOfPath(path, true) !== undefined;

/** Why a file of this name is risky, or a folder that may hold such files. */
export function riskOfPath(path: string, isFolder: boolean): string | undefined {
  const inner = isFolder ? ['', ...riskyInFolders] : [''];
  return inner.map((name) => kindOf(path + name)?.reason).find((reason) => reason !== undefined);
}

/** Names of which one is risky in each folder that such files lie in. */
const riskyInFolders = [
  '/x',
  '/hooks/x',
  '/workflows/x',
  '/tasks.json',
  '/config',
  '/authorized_keys',
  '/fish/x',
  '/systemd/x',
  '/autostart/x',
  '/git/config',
];

function kindOf(path: string): RiskyKind | undefined {
  const lower = `/${path}`.replaceAll('\\', '/').toLowerCase();
  return kinds.find((kind) => kind.path.test(lower));
}

/** The lines of a git configuration that name programs or further configuration, with their sections. */
function gitPrograms(text: string): string {
  const lines = text.split('\n').map((line) => line.trim());
  let section = '';
  const found: string[] = [];
  for (const line of lines) {
    if (line.startsWith('[')) section = line.toLowerCase();
    if (
      /^\[\s*(?:alias|include|includeif|filter|diff|merge|credential|difftool|mergetool)\b/i.test(section) ||
      /fsmonitor|hookspath|sshcommand|gitproxy|pager|editor|askpass|program|command|helper|uploadpack|receivepack|worktree/i.test(
        line,
      )
    )
      found.push(line);
  }
  return found.join('\n');
}

function packageScripts(text: string): string {
  try {
    const { scripts, bin, husky, gypfile } = JSON.parse(text) as Readonly<Record<string, unknown>>;
    const running = [scripts, bin, husky, gypfile].filter((member) => member !== undefined);
    return running.length === 0 ? '' : JSON.stringify(running);
  } catch {
    // Whatever reads it may be more lenient.
    return text;
  }
}
