/**
 * Decisions of setup-services as pure functions of the facts about the machine. Plain JavaScript, like all of scripts/.
 * Types: services-plan.d.mts.
 */

/** Programs that some tests need. Without them those tests are skipped with a reason. */
const services = [
  { fact: 'postgres', name: 'PostgreSQL', package: 'postgresql' },
  { fact: 'bubblewrap', name: 'bubblewrap', package: 'bubblewrap' },
  { fact: 'chromium', name: 'Chromium', package: 'chromium' },
];

/** The next step: nothing to do, install something, or continue without it. */
export function decide(facts) {
  const missing = services.filter(({ fact }) => !facts[fact]);
  if (missing.length === 0) return { kind: 'ready' };
  const names = missing.map(({ name }) => name).join(', ');
  const packages = missing.map((one) => one.package);
  const step = { kind: 'install', names, packages };
  if (facts.platform === 'linux' && facts.apt && facts.root) return step;
  const without = (...lines) => ({
    kind: 'without',
    message: [`${names}: not installed, so the tests that need it are skipped.`, ...lines].join('\n'),
  });
  if (facts.platform === 'darwin')
    return facts.postgres && facts.chromium
      ? { kind: 'ready' }
      : without(
          'To run the tests of PostgreSQL and Chromium: brew install postgresql && brew install --cask chromium; bubblewrap is for Linux only.',
        );
  if (facts.platform !== 'linux') return without('They run on Linux and macOS.');
  if (facts.apt) return without('To run them, as root:', ...commandsOf(step).map((line) => `  ${line}`));
  return without(
    'To run them:',
    '  Fedora: dnf install postgresql-server bubblewrap chromium',
    '  Arch: pacman -S postgresql bubblewrap chromium',
    '  openSUSE: zypper install postgresql-server bubblewrap chromium',
  );
}

/** Shell commands of an install step, in order. */
export const commandsOf = ({ packages }) => [
  'apt-get update',
  `apt-get install -y --no-install-recommends ${packages.join(' ')}`,
];
