import type { FrameworkName } from '../../conf/frameworks/names.ts';

/** Program of a new job, which `tony-ts init` writes. It trains a small model on generated data, and resumes from checkpoints. */
export interface NewProgram {
  readonly file: string;
  readonly command: string;
  readonly text: string;
  /** Memory of each worker. */
  readonly memory: string;
  /** Name of the Python packages that the program needs. Null if it needs none. */
  readonly packages: string | null;
  /** Name of the runtime for tasks with GPUs, or null if the framework needs none. */
  readonly gpuRuntime: string | null;
  /** Content of .tonyignore. */
  readonly ignored: string;
}

const LIBRARY = 'tony-ts/training';

const PYTHON_IMPORT = `try:
    import tony
except ImportError:  # Outside a job, the package tony is optional.
    tony = None`;

const DATA_COMMENT = 'Example data: points in a plane, labelled by whether they lie within a circle. Replace it with your own data.';

const TFJS = `import { join } from '${LIBRARY}';

// In a job, this process is one of its workers. Without a job (node train.ts), it trains alone.
const cluster = await join();
const { tf } = cluster;

// ${DATA_COMMENT}
// docs/data.md describes data.csv, data.tfRecords and other sources.
const EXAMPLES = 4096;
const points = Float32Array.from({ length: EXAMPLES * 2 }, (_, index) => 2 * ((index * 0.6180339887) % 1) - 1);
const inside = Float32Array.from({ length: EXAMPLES }, (_, index) => (Math.hypot(points[2 * index]!, points[2 * index + 1]!) < 0.7 ? 1 : 0));

const model = tf.sequential();
model.add(tf.layers.dense({ inputShape: [2], units: 32, activation: 'relu' }));
model.add(tf.layers.dense({ units: 32, activation: 'relu' }));
model.add(tf.layers.dense({ units: 1, activation: 'sigmoid' }));
model.compile({ optimizer: tf.train.adam(0.01), loss: 'binaryCrossentropy', metrics: ['accuracy'] });

const { history } = await cluster.fit(model, { x: { values: points, shape: [EXAMPLES, 2] }, y: { values: inside, shape: [EXAMPLES, 1] } }, { epochs: 10, batchSize: 64 });
if (cluster.isChief) console.log(\`accuracy: \${(100 * (history.acc?.at(-1) ?? 0)).toFixed(2)} %\`);
`;

const PYTORCH = `"""Trains a small model with DistributedDataParallel, and resumes from the newest checkpoint.

In a job, this process is one of its workers. With python3 alone, it trains without other processes.
"""

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

${PYTHON_IMPORT}

EXAMPLES, BATCH, STEPS = 4096, 64, 400


def restore(model, optimizer):
    """Loads the job's newest checkpoint and returns its step."""
    checkpoint = tony.latest_checkpoint() if tony else None
    if checkpoint is None:
        return 0
    state = torch.load(os.path.join(checkpoint.path, "state.pt"), map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return checkpoint.step


def save(model, optimizer, step):
    with tempfile.TemporaryDirectory() as folder:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, os.path.join(folder, "state.pt"))
        tony.save_checkpoint(step, folder)


def main():
    distributed = "WORLD_SIZE" in os.environ
    if distributed:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world = (dist.get_rank(), dist.get_world_size()) if distributed else (0, 1)
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if torch.cuda.is_available() else torch.device("cpu")

    # ${DATA_COMMENT}
    points = torch.rand(EXAMPLES, 2, generator=torch.Generator().manual_seed(1)) * 2 - 1
    inside = (points.norm(dim=1) < 0.7).float().unsqueeze(1)

    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    first = restore(model, optimizer)
    trained = DistributedDataParallel(model) if distributed else model
    loss_of = nn.BCEWithLogitsLoss()

    for step in range(first + 1, STEPS + 1):
        # All ranks draw the same batch. Each rank trains on its share of the batch.
        batch = torch.randint(EXAMPLES, (BATCH,), generator=torch.Generator().manual_seed(step))[rank::world]
        optimizer.zero_grad()
        loss = loss_of(trained(points[batch].to(device)), inside[batch].to(device))
        loss.backward()
        optimizer.step()
        if tony and rank == 0:
            if step % 10 == 0:
                tony.report(loss=loss, step=step)
            if tony.should_checkpoint(step) or step == STEPS:
                save(model, optimizer, step)

    if rank == 0:
        with torch.no_grad():
            correct = (model(points.to(device)) > 0).cpu() == (inside > 0)
        print(f"accuracy: {100 * correct.float().mean().item():.2f} %", flush=True)
        if tony:
            # Files that the program writes elsewhere are removed when the job ends.
            with tempfile.TemporaryDirectory() as folder:
                torch.save(model.state_dict(), os.path.join(folder, "model.pt"))
                tony.save_output(folder, "model")
    if distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
`;

const TENSORFLOW = `"""Trains a small model with MultiWorkerMirroredStrategy, and resumes from the newest checkpoint.

In a job, this process is one of its workers. With python3 alone, it trains without other processes.
"""

import os
import tempfile

import numpy as np
import tensorflow as tf

${PYTHON_IMPORT}

EXAMPLES, BATCH, STEPS = 4096, 64, 400


def make_model():
    return tf.keras.Sequential(
        [
            tf.keras.layers.Input((2,)),
            tf.keras.layers.Dense(32, activation="relu"),
            tf.keras.layers.Dense(32, activation="relu"),
            tf.keras.layers.Dense(1),
        ]
    )


def restore(variables):
    """Loads the job's newest checkpoint and returns its step."""
    checkpoint = tony.latest_checkpoint() if tony else None
    if checkpoint is None:
        return 0
    with np.load(os.path.join(checkpoint.path, "state.npz")) as state:
        for variable, name in zip(variables, state.files):
            variable.assign(state[name])
    return checkpoint.step


def save(variables, step):
    with tempfile.TemporaryDirectory() as folder:
        np.savez(os.path.join(folder, "state.npz"), *[variable.numpy() for variable in variables])
        tony.save_checkpoint(step, folder)


def main():
    # Opens this worker's server and waits for the other workers.
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    resolver = strategy.cluster_resolver
    tasks = resolver.cluster_spec().as_dict()
    workers = max(1, len(tasks.get("chief", [])) + len(tasks.get("worker", [])))
    rank = tony.context().rank if tony and tony.context().in_job else resolver.task_id or 0

    # ${DATA_COMMENT}
    points = np.random.default_rng(1).uniform(-1, 1, (EXAMPLES, 2)).astype(np.float32)
    inside = (np.linalg.norm(points, axis=1) < 0.7).astype(np.float32)[:, None]

    tf.keras.utils.set_random_seed(1)
    with strategy.scope():
        model = make_model()
        optimizer = tf.keras.optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)
    variables = [variable.value for variable in [*model.variables, *optimizer.variables]]
    first = restore(variables)
    loss_of = tf.keras.losses.BinaryCrossentropy(from_logits=True, reduction="sum")

    @tf.function
    def train(batch_points, batch_inside):
        def on_replica(replica_points, replica_inside):
            with tf.GradientTape() as tape:
                loss = loss_of(replica_inside, model(replica_points, training=True)) / BATCH
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            return loss

        losses = strategy.run(on_replica, args=(batch_points, batch_inside))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    for step in range(first + 1, STEPS + 1):
        # All workers draw the same batch. Each worker trains on its share of the batch.
        batch = np.random.default_rng(step).integers(EXAMPLES, size=BATCH)[rank::workers]
        loss = train(points[batch], inside[batch])
        if tony and rank == 0:
            if step % 10 == 0:
                tony.report(loss=loss, step=step)
            if tony.should_checkpoint(step) or step == STEPS:
                save(variables, step)

    if rank == 0:
        # This model is outside the strategy, so the other workers need not take part.
        trained = make_model()
        trained.set_weights([variable.numpy() for variable in model.variables])
        correct = (trained(points).numpy() > 0) == (inside > 0)
        print(f"accuracy: {100 * correct.mean():.2f} %", flush=True)
        if tony:
            # Files that the program writes elsewhere are removed when the job ends.
            with tempfile.TemporaryDirectory() as folder:
                trained.save(os.path.join(folder, "model.keras"))
                tony.save_output(folder, "model")


if __name__ == "__main__":
    main()
`;

const JAX = `"""Trains a small model in several processes, and resumes from the newest checkpoint.

In a job, this process is one of its workers. With python3 alone, it trains without other processes.
"""

import os
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

${PYTHON_IMPORT}

EXAMPLES, BATCH, STEPS = 4096, 64, 600


def make_parameters():
    one, two = jax.random.split(jax.random.key(1))
    return {
        "w1": np.asarray(jax.random.normal(one, (2, 32))),
        "b1": np.zeros(32, np.float32),
        "w2": np.asarray(jax.random.normal(two, (32, 1))) * 0.1,
        "b2": np.zeros(1, np.float32),
    }


def outputs_of(parameters, points):
    hidden = jax.nn.relu(points @ parameters["w1"] + parameters["b1"])
    return hidden @ parameters["w2"] + parameters["b2"]


def loss_of(parameters, points, inside):
    outputs = outputs_of(parameters, points)
    return jnp.mean(jnp.logaddexp(0.0, outputs) - inside * outputs)


@jax.jit
def train(parameters, points, inside):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, points, inside)
    return loss, jax.tree.map(lambda value, gradient: value - 0.3 * gradient, parameters, gradients)


def save_arrays(parameters, folder, name):
    np.savez(os.path.join(folder, name), **{key: np.asarray(value) for key, value in parameters.items()})


def main():
    if "JAX_NUM_PROCESSES" in os.environ:
        # initialize reads JAX_COORDINATOR_ADDRESS itself.
        jax.distributed.initialize(
            num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
            process_id=int(os.environ["JAX_PROCESS_ID"]),
        )
    rank, processes = jax.process_index(), jax.process_count()

    # ${DATA_COMMENT}
    points = np.random.default_rng(1).uniform(-1, 1, (EXAMPLES, 2)).astype(np.float32)
    inside = (np.linalg.norm(points, axis=1) < 0.7).astype(np.float32)[:, None]

    first, state = 0, make_parameters()
    checkpoint = tony.latest_checkpoint() if tony else None
    if checkpoint is not None:
        first = checkpoint.step
        with np.load(os.path.join(checkpoint.path, "state.npz")) as stored:
            state = dict(stored)

    mesh = Mesh(np.array(jax.devices()), ("batch",))
    split, whole = NamedSharding(mesh, PartitionSpec("batch")), NamedSharding(mesh, PartitionSpec())
    parameters = {name: jax.make_array_from_process_local_data(whole, value) for name, value in state.items()}

    for step in range(first + 1, STEPS + 1):
        # All processes draw the same batch. Each process trains on its share of the batch.
        batch = np.random.default_rng(step).integers(EXAMPLES, size=BATCH)[rank::processes]
        loss, parameters = train(
            parameters,
            jax.make_array_from_process_local_data(split, points[batch]),
            jax.make_array_from_process_local_data(split, inside[batch]),
        )
        if tony and rank == 0:
            if step % 10 == 0:
                tony.report(loss=loss, step=step)
            if tony.should_checkpoint(step) or step == STEPS:
                with tempfile.TemporaryDirectory() as folder:
                    save_arrays(parameters, folder, "state.npz")
                    tony.save_checkpoint(step, folder)

    if rank == 0:
        trained = {name: np.asarray(value) for name, value in parameters.items()}
        correct = (np.asarray(outputs_of(trained, points)) > 0) == (inside > 0)
        print(f"accuracy: {100 * correct.mean():.2f} %", flush=True)
        if tony:
            # Files that the program writes elsewhere are removed when the job ends.
            with tempfile.TemporaryDirectory() as folder:
                save_arrays(trained, folder, "model.npz")
                tony.save_output(folder, "model")


if __name__ == "__main__":
    main()
`;

const NONE = `"""Fits a line to generated data without any package, and resumes from the newest checkpoint.

The tasks of a job with framework none do not know each other. Divide the work among them by TONY_RANK and TONY_WORLD_SIZE, or
start your own launcher here. With python3 alone, the program runs without a job.
"""

import json
import os
import tempfile

${PYTHON_IMPORT}

EXAMPLES, STEPS = 1000, 400


def main():
    rank = int(os.environ.get("TONY_RANK", 0))
    # Example data: y = 3 x + 1. Replace it with your own data.
    points = [(index / EXAMPLES, 3 * index / EXAMPLES + 1) for index in range(EXAMPLES)]

    first, slope, offset = 0, 0.0, 0.0
    checkpoint = tony.latest_checkpoint() if tony else None
    if checkpoint is not None:
        first = checkpoint.step
        with open(os.path.join(checkpoint.path, "state.json")) as file:
            slope, offset = json.load(file)

    for step in range(first + 1, STEPS + 1):
        errors = [slope * x + offset - y for x, y in points]
        slope -= sum(error * x for error, (x, _) in zip(errors, points)) / EXAMPLES
        offset -= sum(errors) / EXAMPLES
        if tony and rank == 0:
            if step % 10 == 0:
                tony.report(loss=sum(error * error for error in errors) / EXAMPLES, step=step)
            if tony.should_checkpoint(step) or step == STEPS:
                with tempfile.TemporaryDirectory() as folder:
                    with open(os.path.join(folder, "state.json"), "w") as file:
                        json.dump([slope, offset], file)
                    tony.save_checkpoint(step, folder)

    if rank == 0:
        print(f"y = {slope:.2f} x + {offset:.2f}", flush=True)


if __name__ == "__main__":
    main()
`;

const IGNORED_PACKAGES = `# The runtime contains TensorFlow.js. If the program needs other npm packages, remove the next line to ship node_modules. If you have run
# \`npm link tony-ts\`, write node_modules/tony-ts instead.
node_modules
`;

const PYTHON = { file: 'train.py', command: 'python3 train.py', gpuRuntime: null, ignored: '__pycache__\n' } as const;

/** The frameworks for which `tony-ts init` writes a program. */
export const NEW_PROGRAMS = {
  tfjs: {
    file: 'train.ts',
    command: 'node train.ts',
    text: TFJS,
    memory: '2g',
    packages: null,
    gpuRuntime: 'gpu',
    ignored: IGNORED_PACKAGES,
  },
  pytorch: { ...PYTHON, text: PYTORCH, memory: '2g', packages: 'PyTorch' },
  tensorflow: { ...PYTHON, text: TENSORFLOW, memory: '3g', packages: 'TensorFlow' },
  jax: { ...PYTHON, text: JAX, memory: '2g', packages: 'JAX' },
  none: { ...PYTHON, text: NONE, memory: '1g', packages: null },
} as const satisfies Partial<Record<FrameworkName, NewProgram>>;

export type NewJobFramework = keyof typeof NEW_PROGRAMS;

export const NEW_JOB_FRAMEWORKS = Object.keys(NEW_PROGRAMS) as [NewJobFramework, ...NewJobFramework[]];

/** The first framework is also the default of job.yaml. */
export const [DEFAULT_NEW_JOB] = NEW_JOB_FRAMEWORKS;
