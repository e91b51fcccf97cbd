import type { Job } from '../../conf/job.ts';
import { TonyError } from '../../platform/errors.ts';
import { firstNames } from '../../platform/text/first-names.ts';
import type { RecordedNode } from '../cluster/node-record.ts';
import type { EnvironmentDescription } from '../python/build-environment.ts';
import { compareGlibc } from '../python/wheel-name.ts';

/** Requirements that nodes must meet to load a job's packages. */
export type PythonNeeds = Pick<EnvironmentDescription, 'python' | 'machine' | 'glibc' | 'packages'>;

const MOST_NAMED = 3;

/**
 * Checks whether the nodes that `doctor --probe` has recorded can load a job's packages.
 * @returns a note if some of the nodes cannot load the packages
 * @throws TonyError PYTHON_MISMATCH if none of the nodes for a role can load the packages
 */
export function pythonNotes({ roles }: Pick<Job, 'roles'>, needs: PythonNeeds, nodes: readonly RecordedNode[]): string[] {
  const notes = roles.flatMap((role) => {
    // A Docker image contains its own Python interpreter and glibc.
    const candidates = role.docker === null ? nodes.filter(({ label }) => label === role.nodeLabel) : [];
    const unfit = candidates.flatMap((node) => {
      const reason = whyUnfit(node, needs);
      return reason === null ? [] : [{ ...node, reason }];
    });
    const [first] = unfit;
    if (first === undefined) {
      return [];
    }
    if (unfit.length === candidates.length) {
      throw refusal(role.name, candidates, first);
    }
    const names = unfit.map(({ node }) => node);
    return [`programs fail on ${firstNames(names, MOST_NAMED)}: ${first.reason}`];
  });
  return [...new Set(notes)];
}

/** Returns the reason why the node cannot load the packages, or null if it can. */
function whyUnfit(node: RecordedNode, { python, machine, glibc, packages }: PythonNeeds): string | null {
  if (!node.pythons.includes(python)) {
    const found = node.pythons.length === 0 ? 'none' : node.pythons.join(', ');
    return `the packages are for Python ${python}, and the node has ${found}`;
  }
  if (glibc !== null && node.machine !== machine) {
    return `the packages are for ${machine}, and the node is ${node.machine}`;
  }
  if (glibc === null || compareGlibc(node.glibc, glibc) >= 0) {
    return null;
  }
  const tooNew = packages.filter((each) => compareGlibc(node.glibc, each.glibc) < 0).map(({ name, version }) => `${name} ${version}`);
  return `${firstNames(tooNew, MOST_NAMED)} ${tooNew.length === 1 ? 'needs' : 'need'} glibc ${glibc}, and the node has ${node.glibc}`;
}

function refusal(role: string, candidates: readonly RecordedNode[], first: RecordedNode & { readonly reason: string }): TonyError {
  const day = new Date(first.probedAt).toISOString().slice(0, 10);
  const where = candidates.length === 1 ? 'do not work on the only node' : `work on none of the ${candidates.length} nodes`;
  const message = `The packages in python.requirements ${where} that role ${role} may use (probed on ${day}). ${first.node}: ${first.reason}.`;
  const common = commonTarget(candidates);
  const advice =
    common === null
      ? 'The nodes have no common Python version. Use nodeLabel to select nodes with the same version, or ship an interpreter with python.archive.'
      : `Set ${common} under python in job.yaml.`;
  return new TonyError('PYTHON_MISMATCH', message, { hint: `${advice} If the nodes have changed, run \`tony-ts doctor --probe\` again.` });
}

/** Returns settings that work on all nodes, or null if no settings do. */
function commonTarget(nodes: readonly RecordedNode[]): string | null {
  const [first, ...others] = nodes;
  const versions = (first?.pythons ?? []).filter((version) => others.every(({ pythons }) => pythons.includes(version)));
  const newest = versions.toSorted((a, b) => compareGlibc(b, a))[0];
  const oldest = nodes.map(({ glibc }) => glibc).toSorted(compareGlibc)[0];
  if (first === undefined || newest === undefined || oldest === undefined || others.some(({ machine }) => machine !== first.machine)) {
    return null;
  }
  return `version: '${newest}' and platform: manylinux_${oldest.replace('.', '_')}_${first.machine}`;
}
