#!/usr/bin/env bash
# GRPO of the critic with verl 0.9 on several nodes, with the same reward as `interleave train grpo`.
# On every node, install `verl[verl-core]>=0.9.1` (plain `verl` lacks its imports), vLLM as verl documents it,
# and interleavethinker[api]. Start Ray (`ray start --head` on one node, `ray start --address=HEAD:6379` on the
# others). Then run this on the head:
#   DATA=export/verl MODEL=trained/critic/model GENERATOR=http://draw-1:8011 SCORER=openai:NAME@http://judge:8000/v1 launch/verl-grpo.sh
# To check it without verl: interleave train grpo … --config qwen3-vl-8b-grpo --check --launch launch/verl-grpo.sh
set -euo pipefail

DATA=${DATA:-export/verl}
MODEL=${MODEL:-InterleaveThinker/Critic-SFT-8B}
GENERATOR=${GENERATOR:-http://localhost:8011}
SCORER=${SCORER:-gemini:gemini-2.5-pro}
NODES=${NODES:-2}
GPUS=${GPUS:-8}
OUT=${OUT:-trained/critic-verl}
# Validation runs only if trainer.test_freq is set, but verl opens the file, and small exports have none.
VALIDATION=${VALIDATION:-$DATA/validation/critic_rl.parquet}
[ -f "$VALIDATION" ] || VALIDATION=$DATA/critic_rl.parquet
REWARD=$(python -c "import interleave.train.trainers.verl as reward; print(reward.__file__)")
# The reward function marks failed rewards, and this estimator reads the marks in every process of the job.
export VERL_USE_EXTERNAL_MODULES=interleave.train.trainers.verl_advantages

# Hydra parses commas, = and brackets in a value as its grammar, unless the value is in single quotes.
python -m verl.trainer.main_ppo \
    algorithm.adv_estimator=interleave_grpo \
    algorithm.use_kl_in_reward=False \
    data.train_files="'$DATA/critic_rl.parquet'" \
    data.val_files="'$VALIDATION'" \
    data.train_batch_size=16 \
    data.max_prompt_length=16384 \
    data.max_response_length=4096 \
    data.image_key=images \
    data.truncation=error \
    actor_rollout_ref.model.path="'$MODEL'" \
    actor_rollout_ref.model.enable_gradient_checkpointing=True \
    actor_rollout_ref.actor.optim.lr=2e-6 \
    actor_rollout_ref.actor.optim.weight_decay=0.01 \
    actor_rollout_ref.actor.ppo_mini_batch_size=16 \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 \
    actor_rollout_ref.actor.clip_ratio_low=0.2 \
    actor_rollout_ref.actor.clip_ratio_high=0.3 \
    actor_rollout_ref.actor.loss_agg_mode=token-mean \
    actor_rollout_ref.actor.use_kl_loss=True \
    actor_rollout_ref.actor.kl_loss_coef=0.001 \
    actor_rollout_ref.actor.kl_loss_type=low_var_kl \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.n=8 \
    actor_rollout_ref.rollout.temperature=1.0 \
    actor_rollout_ref.rollout.tensor_model_parallel_size=4 \
    actor_rollout_ref.rollout.gpu_memory_utilization=0.5 \
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1 \
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=1 \
    reward.custom_reward_function.path="'$REWARD'" \
    reward.custom_reward_function.name=compute_score \
    +reward.custom_reward_function.reward_kwargs.generator="'$GENERATOR'" \
    +reward.custom_reward_function.reward_kwargs.scorer="'$SCORER'" \
    +reward.custom_reward_function.reward_kwargs.failed=mark \
    reward.num_workers=8 \
    +ray_kwargs.ray_init.runtime_env.env_vars.VERL_USE_EXTERNAL_MODULES="$VERL_USE_EXTERNAL_MODULES" \
    trainer.nnodes="$NODES" \
    trainer.n_gpus_per_node="$GPUS" \
    trainer.total_epochs=1 \
    trainer.save_freq=50 \
    trainer.val_before_train=False \
    trainer.default_local_dir="'$OUT'" \
    trainer.logger='["console","tensorboard"]' \
    trainer.project_name=interleave \
    trainer.experiment_name=critic-grpo
