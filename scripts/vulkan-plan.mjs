/**
 * Decisions of setup-vulkan as pure functions of the facts about the machine. Plain JavaScript, like all of scripts/:
 * it runs before anything is built, on any Node. Types: vulkan-plan.d.mts.
 */

/** Dawn refuses Mesa 22.3, the version in Debian 12. */
const minMesaMajor = 23;
const sourceFile = '/etc/apt/sources.list.d/lathe-backports.list';
const archiveKeys = '/usr/share/keyrings/debian-archive-keyring.gpg';
/** Debian mirror for machines that have none configured. */
const publicMirror = 'http://deb.debian.org/debian/';

/** The next step: nothing to do, install something, or something that only the user can do. */
export function decide(facts) {
  if (facts.platform !== 'linux')
    return { kind: 'ready', note: 'this system brings its own graphics interface' };
  if (facts.adapter !== undefined) return { kind: 'ready', note: facts.adapter };

  const nvidia = facts.gpus.some((device) => device.includes('nvidia'));
  if (nvidia && !facts.loader) return install(facts, ['libvulkan1'], 'the Vulkan loader for the GPU');
  if (nvidia) {
    return refuse(
      `there is an NVIDIA GPU (${facts.gpus.join(', ')}), but its driver does not support Vulkan.`,
      "Install the driver's graphics part (libnvidia-gl on Debian and Ubuntu; in a container also set NVIDIA_DRIVER_CAPABILITIES=all).",
      'Or continue without the GPU, with the software driver:',
      ...commandsOf(softwareDriver(facts)).map((command) => `  ${command}`),
    );
  }

  const complete = facts.loader && facts.lavapipe && majorOf(facts.mesa) >= minMesaMajor;
  if (complete) {
    return refuse(
      `Mesa ${facts.mesa} and the Vulkan loader are installed, but Dawn finds no adapter.`,
      facts.driverFiles === undefined
        ? `Dawn says: ${facts.dawn || 'nothing'}`
        : `The environment restricts the drivers to ${facts.driverFiles}; unset VK_DRIVER_FILES and VK_ICD_FILENAMES.`,
    );
  }
  return softwareDriver(facts);
}

/** Mesa contains lavapipe, the software driver, and the drivers of AMD and Intel GPUs. */
function softwareDriver(facts) {
  return install(facts, ['libvulkan1', 'mesa-vulkan-drivers'], "Mesa's Vulkan drivers");
}

function install(facts, packages, what) {
  if (!facts.apt) {
    return refuse(
      `no Vulkan driver found, and ${facts.system.name} has no apt-get. Install Mesa's Vulkan drivers and the Vulkan loader:`,
      '  Fedora: dnf install mesa-vulkan-drivers vulkan-loader',
      '  Arch: pacman -S vulkan-swrast vulkan-icd-loader',
      '  openSUSE: zypper install libvulkan_lvp libvulkan1',
    );
  }
  const step = { kind: 'install', what, packages };
  if (facts.system.codename !== 'bookworm' || !packages.includes('mesa-vulkan-drivers')) return step;
  const release = 'bookworm-backports';
  if (facts.targets.some((target) => target.release === release)) return { ...step, release };
  return { ...step, release, mirror: mirrorOf(facts.targets), signed: facts.archiveKeys };
}

/** The machine's configured mirror of Debian 12, else the public one. */
function mirrorOf(targets) {
  const releases = ['bookworm', 'oldstable', 'stable'];
  const main = targets.find(({ release, uri }) => releases.includes(release) && /^https?:/.test(uri));
  return main?.uri ?? publicMirror;
}

/** Shell commands of an install step, in order. They are run by root and printed for other users. */
export function commandsOf(step) {
  if (step.kind !== 'install') return [];
  const { packages, release, mirror, signed } = step;
  const commands = [];
  if (mirror !== undefined) {
    const options = signed ? `[signed-by=${archiveKeys}] ` : '';
    commands.push(`echo 'deb ${options}${mirror} ${release} main' > ${sourceFile}`);
  }
  const from = release === undefined ? '' : `-t ${release} `;
  return [
    ...commands,
    'apt-get update',
    `apt-get install -y --no-install-recommends ${from}${packages.join(' ')}`,
  ];
}

/**
 * Command that removes the added source, so that a mirror without backports does not break the next `apt-get update`.
 */
export function undoOf(step) {
  return step.mirror === undefined ? undefined : `rm -f ${sourceFile}`;
}

/** Alternative install step after a failure; undefined if there is none. */
export function alternativeTo(step) {
  return step.mirror === undefined || step.mirror === publicMirror
    ? undefined
    : { ...step, mirror: publicMirror };
}

/** Explains a failure of apt-get in one sentence and says what to do. */
export function explainApt(output) {
  const reason =
    aptFailures.find(({ sign }) => sign.test(output))?.say ?? 'apt-get failed; see its output above';
  return `${reason}.`;
}

const aptFailures = [
  {
    sign: /Could not get lock|Unable to acquire the dpkg frontend lock|is another process using it/i,
    say: 'another package manager is at work; wait until it is done and run this again',
  },
  {
    sign: /dpkg was interrupted/i,
    say: 'an earlier installation was interrupted; run `dpkg --configure -a`, then this again',
  },
  {
    sign: /Temporary failure resolving|Could not resolve|Could not connect|Unable to connect|Connection (failed|timed out|refused)|Network is unreachable/i,
    say: 'cannot reach the package servers; check the network or the proxy and run this again',
  },
  {
    sign: /No space left on device|don't have enough free space/i,
    say: 'the disk is full; free some space and run this again',
  },
  {
    sign: /Unable to locate package|has no installation candidate/i,
    say: 'the package sources of this machine do not have these packages',
  },
  {
    sign: /NO_PUBKEY|is not signed|not live until|expired/i,
    say: 'cannot verify the package sources; check the keys and the clock of this machine',
  },
];

/** Reads /etc/os-release. */
export function parseOsRelease(text) {
  const value = (key) => new RegExp(`^${key}="?([^"\\n]*)"?$`, 'm').exec(text)?.[1];
  return { name: value('PRETTY_NAME') ?? 'this system', codename: value('VERSION_CODENAME') };
}

/** Reads `apt-get indextargets --format '$(RELEASE) $(REPO_URI)'`. */
export function parseTargets(text) {
  return text
    .split('\n')
    .map((line) => line.trim().split(' '))
    .flatMap(([release, uri]) => (release && uri ? [{ release, uri }] : []));
}

function majorOf(version) {
  // The version may have an epoch: `1:24.0.5`.
  return Number.parseInt((version ?? '').replace(/^\d+:/, ''), 10) || 0;
}

function refuse(...lines) {
  return { kind: 'refuse', message: lines.join('\n') };
}
