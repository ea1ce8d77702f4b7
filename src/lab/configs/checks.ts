import { timingSafeEqual } from 'node:crypto';
import { kernelDigest } from '../digest.ts';
import { type Finding, isConfigName, kernelName } from '../types.ts';
import { fault } from './read.ts';
import type { ReadEnvelope } from './schema.ts';
import { bytesOf, keyIdOf, rawPublicKey, type SigningKey } from '../../signing/ed25519.ts';
import { signatureFits } from './signature.ts';

type ReadKernel = ReadEnvelope['kernels'][number];

/** Facts about this host that a config is validated against. */
export interface ConfigJudge {
  readonly ownKey: Pick<SigningKey, 'publicKey' | 'keyId'>;
  /** Ids of the keys given with `--trust-key`. */
  readonly trustedKeys: readonly string[];
  /** Digest of the resident model: `sha256:<hex>`. */
  readonly modelDigest: string;
  readonly knownOps: readonly string[];
  /** Features of the adapter. */
  readonly features: readonly string[];
  /** `--allow-unverified-kernels`: a kernel without parity results gets a warning instead of an error. */
  readonly allowUnverified?: boolean;
  /** Static checks of a kernel; they need no device. */
  readonly staticFindings?: (kernel: ReadKernel) => readonly Finding[] | Promise<readonly Finding[]>;
}

/** @param raw the envelope as read, with unknown members: the signature covers them */
export function checkSignature(raw: object, envelope: ReadEnvelope, judge: ConfigJudge): Finding[] {
  const { alg, key_id: keyId, public_key: given, value } = envelope.signature;
  if (alg !== 'ed25519')
    return [fault('unsupported_algorithm', `signature.alg: expected ed25519, got ${alg}`)];
  const ownKey = keyId === judge.ownKey.keyId ? rawPublicKey(judge.ownKey.publicKey) : undefined;
  if (ownKey === undefined && given === undefined) {
    const message = `signature.public_key is missing: the key ${keyId} is not this host's, so the signature cannot be checked`;
    return [fault('missing_public_key', message)];
  }
  const carried = given === undefined ? ownKey : bytesOf(given, 32);
  if (carried === undefined || keyIdOf(carried) !== keyId) {
    return [fault('tampered', `signature.public_key is not the key that key_id names (${keyId})`)];
  }
  if (ownKey !== undefined && !timingSafeEqual(ownKey, carried)) {
    return [
      fault('tampered', `signature.public_key is not the key of this host, although key_id is ${keyId}`),
    ];
  }
  if (!signatureFits(raw, carried, value)) {
    return [
      fault('tampered', `The signature of ${keyId} is invalid: the config was changed after it was signed`),
    ];
  }
  if (ownKey !== undefined || judge.trustedKeys.includes(keyId)) return [];
  const message = `Signed by ${keyId}, which this host does not trust; if you do, start it with --trust-key ${keyId}`;
  return [fault('untrusted_key', message)];
}

export async function checkSafety(envelope: ReadEnvelope, judge: ConfigJudge): Promise<Finding[]> {
  const { name, model, kernels, bindings } = envelope;
  const findings: Finding[] = [];
  if (!isConfigName(name))
    findings.push(fault('unsafe_name', `name: ${quoted(name)} is not a valid config name`));
  if (model.digest !== judge.modelDigest) {
    const message = `The config is for the model ${model.digest}, but the resident model is ${judge.modelDigest}`;
    findings.push(fault('model_mismatch', message));
  }
  const names = kernels.map((kernel) => kernel.name);
  for (const twice of new Set(names.filter((one, index) => names.indexOf(one) !== index))) {
    findings.push(fault('duplicate_kernel', `kernels: ${quoted(twice)} occurs more than once`));
  }
  for (const kernel of new Set(bindings.map((binding) => binding.kernel))) {
    if (names.includes(kernel)) continue;
    findings.push(fault('unknown_kernel', `bindings: the config has no kernel ${quoted(kernel)}`));
  }
  for (const kernel of kernels) {
    const about = await checkKernel(kernel, judge);
    findings.push(
      ...about.map((finding) => ({ ...finding, message: `${quoted(kernel.name)}: ${finding.message}` })),
    );
  }
  return findings;
}

async function checkKernel(kernel: ReadKernel, judge: ConfigJudge): Promise<Finding[]> {
  const { name, op, requires = [], digest } = kernel;
  const findings: Finding[] = [];
  if (!kernelName.test(name)) findings.push(fault('unsafe_name', `not a valid kernel name`));
  const actual = kernelDigest(kernel);
  if (actual !== digest) {
    findings.push(
      fault('digest_mismatch', `its digest is ${actual}, but the config states ${quoted(digest)}`),
    );
  }
  for (const feature of requires) {
    if (judge.features.includes(feature)) continue;
    findings.push(fault('feature_missing', `needs ${feature}, which this adapter does not have`));
  }
  if (!judge.knownOps.includes(op)) {
    return [
      ...findings,
      fault('unknown_op', `op: expected one of ${judge.knownOps.join(', ')}, got ${quoted(op)}`),
    ];
  }
  return [...findings, ...((await judge.staticFindings?.(kernel)) ?? [])];
}

/** Checks the gate reports that the config contains. Nothing runs. */
export function checkEvidence({ kernels, evidence }: ReadEnvelope, judge: ConfigJudge): Finding[] {
  return kernels.flatMap(({ name, digest }) => {
    const report = Object.hasOwn(evidence, name) ? evidence[name] : undefined;
    if (report === undefined) {
      return [fault('missing_evidence', `${quoted(name)}: the config has no gate report for it`)];
    }
    if (report.kernel !== name || report.digest !== digest) {
      const message = `${quoted(name)}: the report is about ${quoted(report.kernel)} with the digest ${report.digest}`;
      return [fault('evidence_mismatch', message)];
    }
    const failed = report.stages.find(({ ok }) => !ok);
    const wrong = report.parity?.find(({ ok }) => !ok);
    if (!report.accepted || failed || wrong) {
      const where = failed
        ? ` in the stage ${failed.stage}`
        : wrong
          ? ` in the case ${quoted(wrong.case)}`
          : '';
      return [fault('evidence_rejected', `${quoted(name)}: the gate did not accept it${where}`)];
    }
    if (report.unverified || report.parity === undefined || report.parity.length === 0) {
      const severity = judge.allowUnverified ? 'warning' : 'error';
      const message = `${quoted(name)}: was never compared with its oracle; the host binds it only with --allow-unverified-kernels`;
      return [{ code: 'evidence_unverified', severity, message }];
    }
    const scale = report.tolerance?.scale ?? 1;
    if (scale <= 1) return [];
    const message = `${quoted(name)}: was compared with ${scale} times the usual tolerance`;
    return [{ code: 'loose_tolerance', severity: 'warning' as const, message }];
  });
}

const quoted = (text: string): string =>
  JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}...` : text);
